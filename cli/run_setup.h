#pragma once

// From the flags of `adaptdl run` to what the launcher needs.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cli/parse.h"
#include "core/launch/run.h"

namespace adaptdl::cli {

// What PROGRAM is, by its first bytes.
enum class ProgramKind {
  archive,     // a ZIP: train.pt
  executable,  // of the runtime library
  other,
};

// Throws Error when the file cannot be read.
ProgramKind program_kind(const std::string& path);

// "STEP:N,STEP:N": steps grow. Throws UsageError.
std::vector<std::pair<int64_t, int>> parse_replicas_at(const std::string& text);

// "SECONDS" or "off" (0). Throws UsageError.
double parse_hang_timeout(const std::string& text);

// Finds what trains `options.program` (the worker and its LibTorch), and, for an archive, checks
// `options.settings` against it: fills worker_*, libtorch_dir, effective_settings and, if it is
// empty, name. `shown`: the program's path in messages. Throws Error.
void choose_trainer(ProgramKind kind, const std::string& shown, launch::RunOptions& options);

// Checks everything that can be checked without starting a replica: the program and its kind, the
// worker and its LibTorch, GPUs. Throws UsageError or Error.
launch::RunOptions run_options(const Arguments& arguments);

}  // namespace adaptdl::cli
