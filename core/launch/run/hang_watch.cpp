#include "core/launch/run/hang_watch.h"

#include <algorithm>

#include "core/base/error.h"

namespace adaptdl::launch {

namespace {

// Whether members have left the generation in force to enter this one, and wait there. Newcomers
// wait from the start, while the others finish a step.
bool is_entered(const Generation* generation, const View& view, ReplicaSet& replicas) {
  if (generation == nullptr) return false;
  return std::any_of(generation->members.begin(), generation->members.end(), [&](MemberId id) {
    const Replica* replica = replicas.find(id);
    const Member* member = view.find(id);
    return replica != nullptr && member != nullptr && member->state == MemberState::active &&
           replica->waits_in == generation->number;
  });
}

}  // namespace

void HangWatch::step_took(Seconds duration) {
  if (!disturbed_) longest_ = std::max(longest_, duration);
  disturbed_ = false;
}

void HangWatch::disturbed() {
  disturbed_ = true;
  restart();
}

void HangWatch::waiting(TimePoint now, bool somebody) {
  if (!somebody) return restart();
  if (since_ != TimePoint{}) waited_ += std::min<Seconds>(now - since_, 2 * kLook);
  since_ = now;
}

void HungReplicas::check(const View& view, ReplicaSet& replicas) {
  if (!watch_.on()) return;
  const Generation* pending = view.pending ? view.generation(*view.pending) : nullptr;
  const bool forming = pending != nullptr && pending->immediate;
  const Generation& generation =
      forming || is_entered(pending, view, replicas) ? *pending : view.current;
  bool anybody_waits = false, anybody_stopped = false, anybody_runs = false;
  std::vector<Replica*> absent;
  for (const MemberId id : generation.members) {
    Replica* replica = replicas.find(id);
    if (replica == nullptr || !replica->open || replica->said_bye) continue;
    const bool stopped = view.find(id)->stopped;
    const bool waits = !stopped && replica->waits_in == generation.number;
    anybody_stopped = anybody_stopped || stopped;
    anybody_runs = anybody_runs || !stopped;
    anybody_waits = anybody_waits || waits;
    if (!waits) absent.push_back(replica);
  }
  if (forming && anybody_stopped) {
    // No member reaches a step while one of them cannot be connected.
    anybody_waits = anybody_runs;
    std::erase_if(absent, [&](Replica* replica) { return !view.find(replica->id)->stopped; });
  }
  const bool held_up = anybody_waits && !absent.empty();
  watch_.waiting(Monotonic::now(), held_up);
  if (!held_up) {
    told_ = false;
    return;
  }
  const bool over = watch_.waited() >= watch_.patience();
  for (Replica* replica : absent) {
    if (over) {
      replica->fatal =
          fmt::format("{} for {:.0f} s while the others waited for it (--hang-timeout)",
                      view.find(replica->id)->stopped ? "was stopped" : "made no progress",
                      watch_.waited().count());
      replica->process->kill();
    } else if (!told_ && watch_.waited() >= watch_.patience() / 2) {
      report_.talk(fmt::format(
          "the others have been waiting for replica {} (process {}) for {:.0f} s; after {:.0f} s "
          "it is killed and replaced (--hang-timeout)",
          replica->id, replica->process->pid(), watch_.waited().count(),
          watch_.patience().count()));
    }
  }
  if (watch_.waited() >= watch_.patience() / 2) told_ = true;
  if (over) watch_.restart();
}

}  // namespace adaptdl::launch
