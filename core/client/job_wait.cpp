#include "core/client/job_wait.h"

#include <thread>
namespace adaptdl::client {
namespace {

constexpr auto kLook = std::chrono::milliseconds(100);

std::string sentence(const JobView& job) {
  std::string text = fmt::format("{}: {}", job.name, job.phase);
  if (!job.reason.empty()) text += fmt::format(" ({})", job.reason);
  if (!job.message.empty()) text += ": " + job.message;
  return text;
}

}  // namespace

WaitGoal wait_goal(std::string_view name) {
  if (name == "succeeded") return WaitGoal::succeeded;
  if (name == "ended") return WaitGoal::ended;
  if (name == "running") return WaitGoal::running;
  ADAPTDL_CHECK(name == "suspended");
  return WaitGoal::suspended;
}

std::optional<ExitCode> outcome(const std::string& phase, WaitGoal goal) {
  const bool succeeded = phase == "Succeeded", failed = phase == "Failed";
  const bool ended = succeeded || failed || phase == "Cancelled";
  if (ended && goal == WaitGoal::ended) return ExitCode::ok;
  if (succeeded) return goal == WaitGoal::suspended ? kJobFailed : ExitCode::ok;
  if (failed) return kJobFailed;
  if (ended) return kJobCancelled;
  if (phase == "Running" && goal == WaitGoal::running) return ExitCode::ok;
  if (phase == "Suspended" && goal == WaitGoal::suspended) return ExitCode::ok;
  return std::nullopt;
}

WaitResult wait_for_jobs(JobQuery& jobs, const std::vector<std::string>& names, WaitGoal goal,
                         std::optional<Seconds> timeout, const std::function<void()>& meanwhile) {
  const TimePoint begun = Monotonic::now();
  for (const std::string& name : names) {
    if (!jobs.look(name)) jobs.find(name);  // throws with a suggestion if it is not found
  }
  WaitResult result;
  for (const std::string& name : names) {  // in turn: all must reach the goal anyway
    for (;;) {
      const std::optional<JobView> job = jobs.look(name);
      if (!job) {
        return {kJobMissing, fmt::format("{} was deleted", name)};
      }
      if (const auto code = outcome(job->phase, goal)) {
        meanwhile();
        result.sentence = sentence(*job);
        result.code = *code;
        break;
      }
      if (timeout && seconds_since(begun) >= timeout->count()) {
        return {ExitCode::timeout, sentence(*job) + "; timed out"};
      }
      meanwhile();
      std::this_thread::sleep_for(kLook);
    }
    if (result.code != ExitCode::ok) return result;
  }
  return result;
}

}  // namespace adaptdl::client
