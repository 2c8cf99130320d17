#pragma once

// Files and commands of the jobs of any cluster.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/client/job_copy.h"

namespace adaptdl::client {

// Exit codes of exec for a command that could not be started, as in shells.
inline constexpr int kCommandNotExecutable = 126, kCommandNotFound = 127;

struct ExecRequest {
  std::string job;
  std::vector<std::string> words;  // the program and its arguments; at least one
  std::optional<int64_t> replica;  // the replica to run beside; none: the cluster chooses
};

// One thread. Every function throws Error if the cluster is unreachable or refuses.
class JobTransfer {
 public:
  virtual ~JobTransfer() = default;

  // Copies files from the job to this machine or back: to `to`, or into it if that is a folder.
  // Keeps modes and times. `path` starts in the job's own folder. Throws UsageError if it leads out
  // of it.
  virtual CopyResult copy_from(const std::string& job, const std::string& path,
                               const std::string& to) = 0;
  virtual CopyResult copy_to(const std::string& from, const std::string& job,
                             const std::string& path) = 0;

  // Runs a command where the job runs, with our standard input and outputs. Returns its exit code,
  // or one of the two above. On this machine the command replaces this process.
  virtual int exec(const ExecRequest& request) = 0;
};

}  // namespace adaptdl::client
