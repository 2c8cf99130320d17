#pragma once

// Converts the flags of `adaptdl run` to the launcher's options.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cli/frame/parse.h"
#include "core/launch/run/run.h"

namespace adaptdl::cli {

// "STEP:N,STEP:N": steps grow. Throws UsageError.
std::vector<std::pair<int64_t, int>> parse_replicas_at(const std::string& text);

// "SECONDS" or "off" (0). Throws UsageError.
double parse_hang_timeout(const std::string& text);

// Checks everything that can be checked before a replica starts: the program and its kind, the
// worker and its LibTorch, GPUs. Throws UsageError or Error.
launch::RunOptions run_options(const Arguments& arguments);

// Of a witness, on whose host PROGRAM may be absent: name, checkpoint_dir and reach.
launch::RunOptions witness_options(const Arguments& arguments);

}  // namespace adaptdl::cli
