#include "core/launch/run/worker_choice.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/system.h"
#include "core/job/training_archive.h"
#include "core/job/training_spec.h"
#include "core/launch/io/protocol.h"
#include "core/launch/paths.h"
#include "core/launch/run/libtorch.h"
#include "core/launch/run/worker_image.h"

namespace adaptdl::launch {
namespace {

void choose_worker(ProgramKind kind, RunOptions& options) {
  const std::string& program = options.program;
  const auto chosen = environment_variable("ADAPTDL_WORKER");
  switch (kind) {
    case ProgramKind::executable:
      options.worker_path = program;
      options.own_main = true;
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
    if (!path_exists(*chosen)) fail("ADAPTDL_WORKER: {} does not exist", *chosen);
    options.worker_path = absolute_path(*chosen);
    if (const auto folder = environment_variable("ADAPTDL_LIBTORCH")) {
      options.libtorch_dir = *folder;
    }
    return;
  }
  options.worker_image = worker_image();
  if (options.worker_image.empty()) {
    fail(
        "{}: this adaptdl was built without Torch, so it cannot train archives. Build it with "
        "LibTorch (`./bootstrap build`, or meson -Dlibtorch=DIR), or name the "
        "worker of another build in ADAPTDL_WORKER.",
        program);
  }
  options.libtorch_dir = choose_libtorch().folder;
}

}  // namespace

ProgramKind program_kind(const std::string& path) {
  if (is_directory(path)) fail("{}: is a folder; name the training archive in it", path);
  const MappedFile file(path);
  const std::string_view bytes = file.text();
  if (bytes.starts_with("PK\x03\x04") || path.ends_with(".pt")) return ProgramKind::archive;
  if (bytes.starts_with("\x7f"
                        "ELF") &&
      bytes.find(kProgramMarker) != bytes.npos) {
    return ProgramKind::executable;
  }
  return ProgramKind::other;
}

void read_program(ProgramKind kind, const std::string& shown, RunOptions& options) {
  const std::string& program = options.program;
  // Report invalid settings here, before anything starts.
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
    check_run_name(options.name);
  }
}

void choose_trainer(ProgramKind kind, const std::string& shown, RunOptions& options) {
  read_program(kind, shown, options);
  choose_worker(kind, options);
}

bool worker_uses_gpus() {
#ifdef ADAPTDL_WORKER_CUDA
  return true;
#else
  return environment_variable("ADAPTDL_WORKER").has_value();
#endif
}

int choose_gpus(const std::string& device, const std::string& libtorch) {
  if (device == "cpu") return 0;
  const int count = static_cast<int>(gpus().size());
  const bool able = worker_uses_gpus();
  if (device == "gpu") {
    if (count == 0) fail("--device gpu: no NVIDIA GPU found (see `adaptdl doctor`)");
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

}  // namespace adaptdl::launch
