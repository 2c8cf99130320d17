#pragma once

// Commands beside a job of this machine's cluster.

#include <string>
#include <vector>

namespace adaptdl::cli {

// What exec says of a command that could not be started, as shells have it.
inline constexpr int kCommandNotExecutable = 126, kCommandNotFound = 127;

// Becomes the command, in the folder and with the variables of the job's replicas. Returns only if
// it cannot be started: one of the codes above, which was said. Throws Error if there is no such
// job. Requires: at least one word.
int exec_beside_local_job(const std::string& job, const std::vector<std::string>& words);

}  // namespace adaptdl::cli
