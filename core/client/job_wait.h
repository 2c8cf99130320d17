#pragma once

// Waits until jobs reach a state.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "core/client/exit_codes.h"
#include "core/client/job_query.h"

namespace adaptdl::client {

// The state to wait for. `ended` includes failure; a job that has succeeded also counts as running.
enum class WaitGoal { succeeded, ended, running, suspended };

// The goal by its name in --for. Requires: a valid name.
WaitGoal wait_goal(std::string_view name);

// ok: reached. kJobFailed, kJobCancelled: no longer reachable. Nothing: still possible.
std::optional<ExitCode> outcome(const std::string& phase, WaitGoal goal);

struct WaitResult {
  ExitCode code = ExitCode::ok;  // also kJobMissing (deleted meanwhile) and timeout
  std::string sentence;          // which job, and its state
};

// Waits for all jobs. Calls `meanwhile` several times a second until then, and once more at the
// end. The first job that cannot reach the goal determines the code. Throws Error (kJobMissing) if
// a job is not found.
WaitResult wait_for_jobs(JobQuery& jobs, const std::vector<std::string>& names, WaitGoal goal,
                         std::optional<Seconds> timeout, const std::function<void()>& meanwhile);

}  // namespace adaptdl::client
