#include "core/launch/run/failures.h"

#include <algorithm>

#include "core/base/error.h"

namespace adaptdl::launch {

void Failures::add(MemberId id, const std::string& reason, MemberState before) {
  tell(id, reason, std::nullopt, before);
}

void Failures::add(MemberId id, std::string reason, const ExitStatus& status, MemberState before) {
  memory_ran_out_ = reason.empty() && oom_.explains(status);
  const Replica* replica = replicas_.find(id);
  if (memory_ran_out_ && replica != nullptr && replica->samples > 0) {
    atomic_limit_ = std::max<int64_t>(replica->samples / 2, 1);
  }
  if (reason.empty()) reason = memory_ran_out_ ? "killed: memory ran out" : status.describe();
  tell(id, reason, status, before);
}

void Failures::no_start(MemberId id, const std::string& error) {
  tell(id, error, std::nullopt, MemberState::starting);
  last_words_ = {error};
}

void Failures::tell(MemberId id, const std::string& reason, std::optional<ExitStatus> status,
                    MemberState before) {
  last_ = fmt::format("replica {}: {}", id, reason);
  last_words_ = replicas_.last_lines(id);
  report_.failure({.member = id,
                   .reason = reason,
                   .status = status,
                   .next = what_next(before),
                   .log = last_words_});
}

std::string Failures::what_next(MemberState before) const {
  const int left = view_.trained();
  if (view_.breakdowns > max_restarts_)
    return "failed too often without a finished step in between";
  const bool another = view_.failed_newcomers <= max_restarts_;
  if (left > 0) {
    const std::string go_on = fmt::format("{} of {} continue", left, view_.target);
    if (!another) return go_on + " without a replacement";
    const bool wanted = left < view_.target && !view_.stopping;
    return wanted ? go_on + ", a replacement is started" : go_on;
  }
  if (before == MemberState::active) return "all replicas restart from the newest checkpoint";
  return another ? "a replacement is started" : "failed too often";
}

}  // namespace adaptdl::launch
