#pragma once

// Files and commands of the jobs of any cluster.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/client/job_copy.h"

namespace adaptdl::client {

// What exec says of a command that could not be started, as shells have it.
inline constexpr int kCommandNotExecutable = 126, kCommandNotFound = 127;

struct ExecRequest {
  std::string job;
  std::vector<std::string> words;  // the program and its arguments; at least one
  std::optional<int64_t> replica;  // beside which; none: the cluster chooses
};

// One thread. Every function throws Error where the cluster cannot be reached, or refuses.
class JobTransfer {
 public:
  virtual ~JobTransfer() = default;

  // Copies files of the job to here, or back: to `to`, or into it, if that is a folder. Modes and
  // times are kept. `path` begins in the job's own folder. Throws UsageError for one that leads out
  // of it.
  virtual CopyResult copy_from(const std::string& job, const std::string& path,
                               const std::string& to) = 0;
  virtual CopyResult copy_to(const std::string& from, const std::string& job,
                             const std::string& path) = 0;

  // Runs a command where the job runs, with our standard input and outputs, and returns its exit
  // code, or one of the two above. On this machine it takes the place of this process.
  virtual int exec(const ExecRequest& request) = 0;
};

}  // namespace adaptdl::client
