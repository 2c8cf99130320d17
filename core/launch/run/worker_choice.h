#pragma once

// What trains a program: the program itself, or a worker and its LibTorch; and on what.

#include <string>

#include "core/launch/run/run.h"

namespace adaptdl::launch {

// What a program is, by its first bytes.
enum class ProgramKind {
  archive,     // a ZIP: train.pt
  executable,  // of the runtime library
  other,
};

// Throws Error when the file cannot be read.
ProgramKind program_kind(const std::string& path);

// Finds what trains `options.program` (the worker and its LibTorch), and, for an archive, checks
// `options.settings` against it: fills worker_*, libtorch_dir, effective_settings and, if it is
// empty, name. `shown`: the program's path in messages. Throws Error.
void choose_trainer(ProgramKind kind, const std::string& shown, RunOptions& options);

// GPUs to share out; 0 = train on the CPU. `device`: cpu, gpu, or auto. `libtorch`: the folder that
// choose_trainer() found. Throws Error if GPUs are wanted and cannot be had.
int choose_gpus(const std::string& device, const std::string& libtorch);

}  // namespace adaptdl::launch
