#include "core/launch/run/failures.h"

#include <algorithm>

#include "core/base/error.h"

namespace adaptdl::launch {

void Failures::add(MemberId id, const std::string& reason, MemberState before) {
  memory_ran_out_ = excused_ = false;
  tell(id, reason, std::nullopt, before);
}

void Failures::add(MemberId id, std::string reason, const ExitStatus& status, MemberState before) {
  const Replica* replica = replicas_.find(id);
  const bool here = replica == nullptr || replica->process->here();
  memory_ran_out_ =
      reason.empty() && (here ? oom_.explains(status) : replica->process->memory_ran_out());
  // One that waits for its first generation, such as a spare, computes nothing.
  const bool computes = before != MemberState::ready;
  excused_ = memory_ran_out_ && computes && replica != nullptr && learn_limit(*replica);
  if (reason.empty()) reason = memory_ran_out_ ? "killed: memory ran out" : status.describe();
  tell(id, reason, status, before);
}

bool Failures::learn_limit(const Replica& replica) {
  if (replica.samples == 0) return false;
  const int64_t half = std::max<int64_t>(replica.samples / 2, 1);
  if (atomic_limit_ == 0 || half < atomic_limit_) atomic_limit_ = half;
  // One that was killed together with others may have been told a limit before this one, too. A
  // replica that has the smallest atomic batch does not follow a smaller limit.
  const bool told_less = replica.atomic_limit == 0 || atomic_limit_ < replica.atomic_limit;
  if (!told_less || atomic_limit_ >= replica.samples) return false;
  excused(view_, replica.id, Monotonic::now());
  return true;
}

void Failures::no_start(MemberId id, const std::string& error) {
  memory_ran_out_ = excused_ = false;
  tell(id, error, std::nullopt, MemberState::starting);
  last_words_ = {error};
}

void Failures::tell(MemberId id, const std::string& reason, std::optional<ExitStatus> status,
                    MemberState before) {
  last_ = fmt::format("replica {}: {}", id, reason);
  last_words_ = replicas_.last_lines(id);
  std::string next = what_next(before);
  if (excused_) next += fmt::format(", with at most {} samples at once", atomic_limit_);
  report_.failure(
      {.member = id, .reason = reason, .status = status, .next = next, .log = last_words_});
}

std::string Failures::what_next(MemberState before) const {
  if (view_.finished) return "training was finished";
  const int left = view_.trained();
  if (view_.breakdowns > max_restarts_)
    return "failed too often without a finished step in between";
  const bool another = view_.failed_newcomers <= max_restarts_;
  if (left > 0) {
    const std::string go_on = fmt::format("{} of {} continue", left, view_.target);
    if (!another) return go_on + " without a replacement";
    if (left >= view_.target || view_.stopping) return go_on;
    const bool spare = std::ranges::any_of(
        view_.members, [this](const Member& member) { return view_.is_spare(member); });
    return go_on + (spare ? ", a spare takes its place" : ", a replacement is started");
  }
  if (before == MemberState::active) return "all replicas restart from the newest checkpoint";
  return another ? "a replacement is started" : "failed too often";
}

}  // namespace adaptdl::launch
