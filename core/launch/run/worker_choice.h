#pragma once

// Chooses what trains a program: the program itself, or a worker and its LibTorch; and the device.

#include <string>

#include "core/launch/run/run.h"

namespace adaptdl::launch {

// The kind of a program, by its first bytes.
enum class ProgramKind {
  archive,     // a ZIP: train.pt
  executable,  // of the runtime library
  other,
};

// Of an archive that is given arguments: its code could not see them.
inline constexpr const char* kNoArchiveArguments =
    "an archive takes no arguments; settings are changed by --set KEY=VALUE";

// Throws Error if the file cannot be read.
ProgramKind program_kind(const std::string& path);

// Checks `options.settings` against `options.program`, if that is an archive. Sets
// effective_settings and, if it is empty, name. `shown`: the program's path in messages. Throws
// Error.
void read_program(ProgramKind kind, const std::string& shown, RunOptions& options);

// read_program(); then finds the program's trainer (the worker and its LibTorch). Sets worker_* and
// libtorch_dir, too. Throws Error.
void choose_trainer(ProgramKind kind, const std::string& shown, RunOptions& options);

// Whether the worker can use a GPU: our own, if LibTorch's CUDA was there when it was built; one
// that $ADAPTDL_WORKER names is believed to.
bool worker_uses_gpus();

// The number of GPUs to divide among the replicas; 0 = train on the CPU. `device`: cpu, gpu, or
// auto. `libtorch`: the folder that choose_trainer() found. Throws Error if GPUs are requested but
// unusable.
int choose_gpus(const std::string& device, const std::string& libtorch);

}  // namespace adaptdl::launch
