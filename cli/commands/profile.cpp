#include <cerrno>
#include <fmt/ranges.h>
#include <fstream>
#include <set>

#include "cli/commands.h"
#include "cli/commands/simulate_setup.h"
#include "cli/embedded.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "core/base/files.h"
#include "core/sim/profiles/profile_yaml.h"
#include "core/sim/profiles/recording.h"

namespace adaptdl::cli {
namespace {

void read_events(const std::string& path, Recording& recording) {
  if (is_directory(path)) fail("{}: is a folder; give a file of events", path);
  std::ifstream stream(path, std::ios::binary);
  if (!stream) fail_errno(errno, fmt::format("{}: cannot open", path));
  recording.add(stream, path);
}

// Adds the kinds of accelerators that the runs of a stream were on.
void read_kinds(const std::string& path, std::set<std::string>& kinds) {
  std::ifstream stream(path, std::ios::binary);
  for (std::string line; std::getline(stream, line);) {
    if (line.find("\"accelerator\"") == std::string::npos) continue;
    const Json event = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!event.is_object() || event.value("event", Json()) != "generation") continue;
    const Json kind = event.value("accelerator", Json());
    if (kind.is_string()) kinds.insert(kind.get<std::string>());
  }
}

int run_profile(const Arguments& arguments) {
  const std::vector<std::string>& paths = arguments.rest();
  Recording recording;
  std::set<std::string> kinds;
  for (const std::string& path : paths) {
    read_events(path, recording);
    read_kinds(path, kinds);
  }
  const std::string on = fmt::format("{}", fmt::join(kinds, ", "));
  if (kinds.size() > 1) {
    talk(
        fmt::format("the runs were on several kinds of accelerators ({}), and the profile mixes "
                    "their times; for a profile of one kind give runs on that kind",
                    on));
  }

  const std::string name =
      arguments.given("application") ? arguments.text("application") : recording.name();
  if (name.empty() || name.find('/') != std::string::npos) {
    throw UsageError(fmt::format("--application: invalid name '{}'; it becomes a file name", name));
  }
  const std::string path = arguments.given("to") ? arguments.text("to") : name + ".yaml";
  if (path != "-") check_writable(path);
  const ProfileData data = recording.profile(name);
  const std::string text =
      profile_yaml(data, fmt::format("adaptdl-profile(5) of {}, from {} steps{}.", name,
                                     recording.steps(), kinds.empty() ? "" : " on " + on));
  if (path == "-") {
    print(text);
    return 0;
  }
  write_file_atomic(path, text);
  if (arguments.quiet()) return 0;
  const size_t epochs = data.runs.front().epochs.size();
  talk(fmt::format("{}: {} placements and batches, {} epoch{}, rescales of {}", path,
                   data.placements.size(), epochs, epochs == 1 ? "" : "s",
                   data.rescale_s ? fmt::format("{:.3g} s", *data.rescale_s) : "unknown cost"));
  return 0;
}

}  // namespace

Command profile_command() {
  return {
      .name = "profile",
      .summary = "Make a profile for simulations from recorded runs",
      .text = embedded("profile.md"),
      .options = {{.name = "application",
                   .kind = Kind::text,
                   .value = "NAME",
                   .doc = "Name of the application in workloads. Default: the first run's name."},
                  {.name = "to",
                   .letter = 'o',
                   .kind = Kind::file,
                   .value = "FILE",
                   .doc = "File to write; - is standard output. Default: NAME.yaml. Simulations "
                          "take the application's name from the file name."}},
      .positionals = {{.name = "EVENTS",
                       .kind = Kind::file,
                       .doc = "Output files of `adaptdl run -o json`.",
                       .repeat = true}},
      .examples = {{"adaptdl profile whole.jsonl two.jsonl --application digits",
                    "Write digits.yaml from two runs."}},
      .run = run_profile};
}

}  // namespace adaptdl::cli
