// Replicas that hold up the others: their program hangs, or they were stopped.

#include <algorithm>

#include "core/base/error.h"
#include "core/launch/launcher.h"

namespace adaptdl::launch {

// Whether members have left the generation in force for it, and wait there. Newcomers do so from
// the start, while the others finish a step.
bool Launcher::is_entered(const Generation* generation) {
  if (generation == nullptr) return false;
  return std::any_of(generation->members.begin(), generation->members.end(), [&](MemberId id) {
    const Replica* replica = find(id);
    const Member* member = view_.find(id);
    return replica != nullptr && member != nullptr && member->state == MemberState::active &&
           replica->waits_in == generation->number;
  });
}

void Launcher::find_hung() {
  if (!watch_.on() || ending_) return;
  const Generation* pending = view_.pending ? view_.generation(*view_.pending) : nullptr;
  const bool forming = pending != nullptr && pending->immediate;
  const Generation& generation = forming || is_entered(pending) ? *pending : view_.current;
  bool anybody_waits = false, anybody_stopped = false, anybody_runs = false;
  std::vector<Replica*> absent;
  for (const MemberId id : generation.members) {
    Replica* replica = find(id);
    if (replica == nullptr || !replica->open || replica->said_bye) continue;
    const bool stopped = view_.find(id)->stopped;
    const bool waits = !stopped && replica->waits_in == generation.number;
    anybody_stopped = anybody_stopped || stopped;
    anybody_runs = anybody_runs || !stopped;
    anybody_waits = anybody_waits || waits;
    if (!waits) absent.push_back(replica);
  }
  if (forming && anybody_stopped) {
    // Nobody comes to a step while one of them cannot be connected.
    anybody_waits = anybody_runs;
    std::erase_if(absent, [this](Replica* replica) { return !view_.find(replica->id)->stopped; });
  }
  const bool held_up = anybody_waits && !absent.empty();
  watch_.waiting(Monotonic::now(), held_up);
  if (!held_up) {
    told_of_hang_ = false;
    return;
  }
  const bool over = watch_.waited() >= watch_.patience();
  for (Replica* replica : absent) {
    if (over) {
      replica->fatal =
          fmt::format("{} for {:.0f} s while the others waited for it (--hang-timeout)",
                      view_.find(replica->id)->stopped ? "was stopped" : "did nothing",
                      watch_.waited().count());
      replica->process->kill();
    } else if (!told_of_hang_ && watch_.waited() >= watch_.patience() / 2) {
      output_.talk(fmt::format(
          "the others have been waiting for replica {} (process {}) for {:.0f} s; after {:.0f} s "
          "it is killed and replaced (--hang-timeout)",
          replica->id, replica->process->pid(), watch_.waited().count(),
          watch_.patience().count()));
    }
  }
  if (watch_.waited() >= watch_.patience() / 2) told_of_hang_ = true;
  if (over) watch_.restart();
}

}  // namespace adaptdl::launch
