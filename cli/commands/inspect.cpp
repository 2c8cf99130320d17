#include <unistd.h>

#include "cli/commands.h"
#include "cli/commands/checkpoint_view.h"
#include "cli/embedded.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/system.h"
#include "core/job/training_archive.h"
#include "core/job/training_spec.h"

namespace adaptdl::cli {
namespace {

const char* kind_name(ArchiveTensor::Kind kind) {
  switch (kind) {
    case ArchiveTensor::Kind::parameter:
      return "parameter";
    case ArchiveTensor::Kind::buffer:
      return "buffer";
    case ArchiveTensor::Kind::attribute:
      return "attribute";
  }
  return "";
}

Json to_json(const ArchiveSummary& archive, const std::vector<SettingLine>& settings) {
  Json result = {{"model", archive.model},
                 {"methods", archive.methods},
                 {"file_bytes", archive.file_bytes},
                 {"parameter_count", archive.parameter_count},
                 {"parameter_bytes", archive.parameter_bytes},
                 {"buffer_bytes", archive.buffer_bytes},
                 {"tensors", Json::array()},
                 {"settings", nullptr}};
  for (const ArchiveTensor& tensor : archive.tensors) {
    result["tensors"].push_back(
        {{"name", tensor.name},
         {"kind", kind_name(tensor.kind)},
         {"dtype", tensor.dtype},
         {"shape", tensor.shape},
         {"bytes", tensor.bytes},
         {"same_as", tensor.same_as.empty() ? Json(nullptr) : Json(tensor.same_as)}});
  }
  if (!archive.has_settings) return result;
  result["settings"] = Json::array();
  for (const SettingLine& line : settings) {
    result["settings"].push_back(
        {{"key", line.key}, {"value", line.value}, {"meaning", line.meaning}});
  }
  return result;
}

// `width`: the terminal's; 0 = unlimited.
std::string to_text(const std::string& path, const ArchiveSummary& archive,
                    const std::vector<SettingLine>& settings, size_t width) {
  std::string text = fmt::format(
      "{}: {}, {} parameters ({}), buffers {}, file {}\nmethods: {}\n\n", path, archive.model,
      archive.parameter_count, format_bytes(archive.parameter_bytes),
      format_bytes(archive.buffer_bytes), format_bytes(archive.file_bytes),
      archive.methods.empty() ? "none" : fmt::format("{}", fmt::join(archive.methods, ", ")));
  std::vector<std::vector<std::string>> rows;
  for (const ArchiveTensor& tensor : archive.tensors) {
    rows.push_back(
        {tensor.name, kind_name(tensor.kind), tensor.dtype, shape_text(tensor.shape),
         tensor.same_as.empty() ? format_bytes(tensor.bytes) : "same as " + tensor.same_as});
  }
  if (!rows.empty()) text += table({"TENSOR", "KIND", "TYPE", "SHAPE", "SIZE"}, rows) + "\n";
  if (!archive.has_settings) {
    return text + fmt::format("No {} inside: adaptdl cannot train it.\n", kSettingsFile);
  }
  rows.clear();
  for (const SettingLine& line : settings) rows.push_back({line.key, line.value, line.meaning});
  return text + wrapped_table({"SETTING", "VALUE", "MEANING"}, rows, width);
}

int inspect_checkpoints(const Arguments& arguments, const std::string& path) {
  if (arguments.given("set")) throw UsageError("--set is for training archives.");
  std::vector<std::string> older = checkpoints_at(path);
  if (older.empty()) {
    fail("{}: has no checkpoint; name a training archive, the folder of a run or a checkpoint",
         path);
  }
  const CheckpointSummary newest = inspect_checkpoint(older.front());
  older.erase(older.begin());
  arguments.json() ? print_json(checkpoint_json(newest, older))
                   : print(checkpoint_text(newest, older));
  return newest.damages.empty() ? 0 : static_cast<int>(ExitCode::error);
}

int run_inspect(const Arguments& arguments) {
  const std::string path = *arguments.positional("PATH");
  if (is_directory(path)) return inspect_checkpoints(arguments, path);
  const ArchiveSummary archive = inspect_archive(path);
  std::vector<SettingLine> settings;
  if (archive.has_settings) {
    settings = describe(parse_training_spec(archive.settings, join_path(path, kSettingsFile),
                                            arguments.list("set")));
  }
  if (arguments.json()) {
    print_json(to_json(archive, settings));
  } else {
    const bool terminal = is_terminal(STDOUT_FILENO);
    const auto width = static_cast<size_t>(terminal ? terminal_width(STDOUT_FILENO) : 0);
    print(to_text(path, archive, settings, width));
  }
  return 0;
}

}  // namespace

Command inspect_command() {
  return {.name = "inspect",
          .summary = "Show the contents of a training archive or a checkpoint",
          .text = embedded("inspect.md"),
          .options = {set_option(), format_option()},
          .positionals = {{.name = "PATH",
                           .kind = Kind::file,
                           .doc = "A training archive, or the folder of a run or of a checkpoint "
                                  "(step-*)."}},
          .examples = {{"adaptdl inspect digits/train.pt", "Parameters, sizes and settings."},
                       {"adaptdl inspect digits/digits.run", "Its newest checkpoint."}},
          .run = run_inspect};
}

}  // namespace adaptdl::cli
