#include <cerrno>
#include <fmt/ranges.h>
#include <fstream>

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

int run_profile(const Arguments& arguments) {
  const std::vector<std::string>& paths = arguments.rest();
  Recording recording;
  for (const std::string& path : paths) read_events(path, recording);

  const std::string name =
      arguments.given("application") ? arguments.text("application") : recording.name();
  if (name.empty() || name.find('/') != std::string::npos) {
    throw UsageError(fmt::format("--application: invalid name '{}'; it becomes a file name", name));
  }
  const std::string path = arguments.given("to") ? arguments.text("to") : name + ".yaml";
  if (path != "-") check_writable(path);
  const ProfileData data = recording.profile(name);
  const std::string on = fmt::format("{}", fmt::join(recording.kinds(), ", "));
  const std::string text =
      profile_yaml(data, fmt::format("adaptdl-profile(5) of {}, from {} steps{}.", name,
                                     recording.steps(), on.empty() ? "" : " on " + on));
  if (path == "-") {
    print(text);
    return 0;
  }
  write_user_file(path, text);
  if (arguments.quiet()) return 0;
  const size_t epochs = data.runs.front().epochs.size();
  size_t placements = data.placements.size();
  for (const auto& [kind, measured] : data.kinds) placements += measured.placements.size();
  talk(fmt::format("{}: {} placements and batches, {} epoch{}, rescales of {}", path, placements,
                   epochs, epochs == 1 ? "" : "s",
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
