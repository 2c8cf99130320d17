#pragma once

// Waiting for what becomes of a job.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/client/job_query.h"

namespace adaptdl::client {

// How a job ended that was waited for, or that it has not: exit codes beside those of ExitCode.
inline constexpr ExitCode kJobFailed{100}, kJobUnfinished{101}, kJobMissing{102},
    kJobCancelled{103};

// What is waited for. `ended` is also fine with failure; a job that has succeeded has run.
enum class WaitGoal { succeeded, ended, running, suspended };

// The goal by its name in --for. Requires: one of them.
WaitGoal wait_goal(std::string_view name);

// ok: reached. kJobFailed, kJobCancelled: it can be reached no more. Nothing: it may come.
std::optional<ExitCode> outcome(const std::string& phase, WaitGoal goal);

struct WaitResult {
  ExitCode code = ExitCode::ok;  // also kJobMissing: deleted meanwhile, and timeout
  std::string sentence;          // which job, and what became of it
};

// Waits for all of them. Calls `meanwhile` several times a second until then, and once more
// afterwards. The first job that cannot get there decides the code. Throws Error if there is no job
// of a name (kJobMissing).
WaitResult wait_for_jobs(JobQuery& jobs, const std::vector<std::string>& names, WaitGoal goal,
                         std::optional<Seconds> timeout, const std::function<void()>& meanwhile);

}  // namespace adaptdl::client
