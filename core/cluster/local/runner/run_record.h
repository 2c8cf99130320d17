#pragma once

// run.json of a job's folder: the state of a run, and how it ended. The launcher writes it
// (CommandOptions::record_file). Here is what the service reads from it, and what a runner writes
// if it fails before it starts the launcher.

#include <optional>
#include <string>
#include <sys/types.h>

#include "core/cluster/local/runner/job_folder.h"

namespace adaptdl::local {

// How a run ended, according to its runner.
struct RunnerEnd {
  std::string state;   // finished, failed, stopped, cancelled; "" or another: no end was recorded
  std::string reason;  // a sentence
  std::string cause;   // of a failure: ReplicaFailed, OutOfMemory, CannotStart
  int64_t step = 0;
  std::optional<int> exit_code, program_exit_code;
};

// Whether run.json says that a command has exited with 143 when it was asked to stop, in this run
// or an earlier one.
bool shown_restartable(const JobFolder& folder);

// What run.json says about the runner `pid`; empty if it is an earlier runner's, or damaged.
RunnerEnd runner_end(const JobFolder& folder, pid_t pid);

// Records why this process, a runner, failed before the launcher had a record of its own.
void record_failure(const JobFolder& folder, const std::string& reason, int code) noexcept;

}  // namespace adaptdl::local
