#include "cli/run_setup.h"

#include <algorithm>

#include "cli/libtorch.h"
#include "cli/worker_image.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/system.h"
#include "core/job/training_archive.h"
#include "core/job/training_spec.h"
#include "core/launch/paths.h"
#include "core/launch/protocol.h"

namespace adaptdl::cli {
namespace {

// The LibTorch for the worker; "" = the one whose path the worker has in itself.
std::string libtorch_folder() {
  const LibTorch chosen = choose_libtorch();
  return chosen.source == "the build's configuration" ? "" : chosen.folder;
}

// GPUs to share out; 0 = train on the CPU.
int choose_gpus(const std::string& device, const std::string& libtorch) {
  if (device == "cpu") return 0;
  const int count = static_cast<int>(gpus().size());
#ifdef ADAPTDL_WORKER_CUDA
  const bool able = true;
#else
  const bool able = environment_variable("ADAPTDL_WORKER").has_value();
#endif
  if (device == "gpu") {
    if (count == 0) fail("--device gpu: this machine shows no NVIDIA GPU (see `adaptdl doctor`).");
    if (!able) {
      fail(
          "--device gpu: the worker in this binary was built without CUDA. Build with "
          "-Dcuda=enabled, or name a CUDA worker in ADAPTDL_WORKER.");
    }
    return count;
  }
  if (!able || count == 0) return 0;
  const std::vector<LibTorch> places = find_libtorch(false);
  const bool cuda = std::any_of(places.begin(), places.end(), [&](const LibTorch& place) {
    return place.problem.empty() && place.cuda && (libtorch.empty() || place.folder == libtorch);
  });
  return cuda ? count : 0;
}

void choose_worker(ProgramKind kind, launch::RunOptions& options) {
  const std::string& program = options.program;
  const auto chosen = environment_variable("ADAPTDL_WORKER");
  switch (kind) {
    case ProgramKind::executable:
      options.worker_path = program;
      if (const auto folder = environment_variable("ADAPTDL_LIBTORCH")) {
        options.libtorch_dir = *folder;
      }
      return;
    case ProgramKind::other:
      fail(
          "{}: neither a training archive (a TorchScript file with adaptdl.yaml inside) nor an "
          "executable made with the runtime library. `adaptdl init digits DIR` writes an example.",
          program);
    case ProgramKind::archive:
      break;
  }
  if (chosen) {
    if (!path_exists(*chosen)) fail("ADAPTDL_WORKER: {} does not exist.", *chosen);
    options.worker_path = absolute_path(*chosen);
    if (const auto folder = environment_variable("ADAPTDL_LIBTORCH")) {
      options.libtorch_dir = *folder;
    }
    return;
  }
  options.worker_image = worker_image();
  if (options.worker_image.empty()) {
    fail(
        "{}: this adaptdl was built without Torch, so it has no worker that could train an "
        "archive. Build it with one (`./bootstrap build`, or meson -Dlibtorch=DIR), or name the "
        "worker of another build in ADAPTDL_WORKER.",
        program);
  }
  options.libtorch_dir = libtorch_folder();
}

}  // namespace

ProgramKind program_kind(const std::string& path) {
  if (is_directory(path)) fail("{}: is a folder; name the training archive inside it.", path);
  const MappedFile file(path);
  const std::string_view bytes = file.text();
  if (bytes.starts_with("PK\x03\x04") || path.ends_with(".pt")) return ProgramKind::archive;
  if (bytes.starts_with("\x7f"
                        "ELF") &&
      bytes.find(launch::kProgramMarker) != bytes.npos) {
    return ProgramKind::executable;
  }
  return ProgramKind::other;
}

std::vector<std::pair<int64_t, int>> parse_replicas_at(const std::string& text) {
  std::vector<std::pair<int64_t, int>> result;
  size_t start = 0;
  while (start < text.size()) {
    const size_t end = std::min(text.find(',', start), text.size());
    const std::string part = text.substr(start, end - start);
    const size_t colon = part.find(':');
    const auto step = try_parse<int64_t>(std::string_view(part).substr(0, colon));
    const auto count = colon == std::string::npos
                           ? std::nullopt
                           : try_parse<int>(std::string_view(part).substr(colon + 1));
    if (!step || !count || *step < 0 || *count < 1) {
      throw UsageError(fmt::format(
          "--replicas-at: {} is not STEP:N, such as 100:3 (from step 100 on, 3 replicas).", part));
    }
    if (!result.empty() && *step <= result.back().first) {
      throw UsageError(fmt::format("--replicas-at: step {} does not follow step {}.", *step,
                                   result.back().first));
    }
    result.emplace_back(*step, *count);
    start = end + 1;
  }
  return result;
}

double parse_hang_timeout(const std::string& text) {
  if (text == "off") return 0;
  const auto seconds = try_parse<double>(text);
  if (!seconds || !(*seconds >= 1 && *seconds <= 1e9)) {
    throw UsageError(fmt::format(
        "--hang-timeout: \"{}\" is neither a number of seconds, 1 or more, nor off.", text));
  }
  return *seconds;
}

void choose_trainer(ProgramKind kind, const std::string& shown, launch::RunOptions& options) {
  const std::string& program = options.program;
  // Mistakes in the settings are told here, before anything is started.
  TrainingSpec spec;
  if (kind == ProgramKind::archive) {
    spec = parse_training_spec(read_settings(program), join_path(shown, kSettingsFile),
                               options.settings);
    for (const SettingLine& line : describe(spec)) {
      options.effective_settings[line.key] = line.value;
    }
  }
  if (options.name.empty()) {
    options.name = spec.name.empty() ? file_stem(program) : spec.name;
    launch::check_run_name(options.name);
  }
  choose_worker(kind, options);
}

launch::RunOptions run_options(const Arguments& arguments) {
  launch::RunOptions options;
  const std::string program = *arguments.positional("PROGRAM");
  options.replicas_at = parse_replicas_at(arguments.text("replicas-at"));
  options.name = arguments.text("name");
  if (!options.name.empty()) launch::check_run_name(options.name);

  if (!path_exists(program)) fail("{}: no such file", program);
  options.program = absolute_path(program);
  options.settings = arguments.list("set");
  choose_trainer(program_kind(options.program), program, options);
  options.arguments = arguments.rest();
  options.gpus = choose_gpus(arguments.text("device"), options.libtorch_dir);
  options.replicas = launch::parse_replicas(arguments.text("replicas"),
                                            options.gpus > 0 ? options.gpus : available_cores());

  // Beside the program, so that the same command finds them from any folder.
  const std::string base = join_path(parent_directory(options.program), options.name + ".run");
  const auto folder = [&](const char* flag, const std::string& otherwise) {
    const std::string chosen = arguments.text(flag);
    return chosen.empty() ? otherwise : absolute_path(chosen);
  };
  options.output_dir = folder("output", base);
  options.checkpoint_dir = folder("checkpoint-dir", join_path(base, "checkpoints"));
  options.log_dir = folder("log-dir", join_path(base, "logs"));
  options.max_restarts = static_cast<int>(arguments.integer("max-restarts"));
  options.threads = static_cast<int>(arguments.integer("threads"));
  options.fresh = arguments.flag("fresh");
  options.hang_timeout_s = parse_hang_timeout(arguments.text("hang-timeout"));
  return options;
}

}  // namespace adaptdl::cli
