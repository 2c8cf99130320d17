#pragma once

// run.json of a job's folder: how a run goes, and how it ended. The launcher writes it
// (CommandOptions::record_file); here is what the service reads of it, and what a runner writes
// that fails before there is a launcher.

#include <optional>
#include <string>
#include <sys/types.h>

#include "core/cluster/local/runner/job_folder.h"

namespace adaptdl::local {

// How a runner says that its run ended.
struct RunnerEnd {
  std::string state;  // finished, failed, stopped, cancelled; "" or another: it did not come so far
  std::string reason;  // a sentence
  std::string cause;   // of a failure: ReplicaFailed, OutOfMemory, CannotStart
  int64_t step = 0;
  std::optional<int> exit_code, program_exit_code;
};

// What run.json says of the runner with this number: nothing if it is an earlier one's, or damaged.
RunnerEnd runner_end(const JobFolder& folder, pid_t pid);

// What ended this process, a runner, before the launcher had a record of its own.
void record_failure(const JobFolder& folder, const std::string& reason, int code) noexcept;

}  // namespace adaptdl::local
