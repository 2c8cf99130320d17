#include "core/launch/run/membership.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace adaptdl::launch {

namespace {

const Generation* pending_generation(const View& view) {
  return view.pending ? view.generation(*view.pending) : nullptr;
}

bool immediate_pending(const View& view) {
  const Generation* pending = pending_generation(view);
  return pending != nullptr && pending->immediate;
}

void broke(View& view, TimePoint now, bool death) {
  if (!view.broken) view.broken = now;
  view.death = view.death || death;
}

// Deaths at the same time count once: only a replica that started after the last one that was
// counted is another failure.
void count_breakdown(View& view, Member& member, TimePoint now) {
  if (member.started < view.breakdown_at) return;
  ++view.breakdowns;
  view.breakdown_at = now;
  member.counts_as_breakdown = true;
}

void count_failed(View& view, Member& member, TimePoint now) {
  if (member.started < view.newcomer_failed_at) return;
  newcomers_failed(view, now);
  member.counts_as_failed = true;
}

// Once all living members have switched, the generation is no longer pending.
void check_complete(View& view) {
  const Generation* pending = pending_generation(view);
  if (pending == nullptr || pending->number != view.current.number) return;
  for (const MemberId id : pending->members) {
    const Member* member = view.find(id);
    if (member == nullptr || member->state == MemberState::gone || member->said_bye) continue;
    if (member->switched < pending->number) return;
  }
  view.pending.reset();
  if (static_cast<int>(view.current.members.size()) == view.target) view.target_cause.clear();
}

void take_force(View& view, uint64_t number, TimePoint now) {
  const Generation next = *view.generation(number);
  view.current = next;
  view.formed = true;
  std::erase_if(view.announced, [&](const Generation& g) { return g.number <= number; });
  if (view.pending && *view.pending < number) view.pending.reset();
  std::erase_if(view.cuts,
                [&](const Cut& cut) { return next.holds(cut.from) && next.holds(cut.to); });
  // It may have been given up because a newcomer died after its members had agreed to switch.
  const bool member_dead = std::any_of(next.members.begin(), next.members.end(), [&](MemberId id) {
    const Member* member = view.find(id);
    return member == nullptr || member->state == MemberState::gone;
  });
  if (member_dead && !(immediate_pending(view) && *view.pending > number)) broke(view, now, true);
  for (Member& member : view.members) {
    if (member.state == MemberState::active && !next.holds(member.id)) member.since = now;
  }
}

}  // namespace

bool Generation::holds(MemberId id) const {
  return std::find(members.begin(), members.end(), id) != members.end();
}

Member* View::find(MemberId id) {
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const Member& member) { return member.id == id; });
  return found == members.end() ? nullptr : &*found;
}

const Member* View::find(MemberId id) const {
  return const_cast<View*>(this)->find(id);
}

const Generation* View::generation(uint64_t number) const {
  if (number != 0 && current.number == number) return &current;
  for (const Generation& generation : announced) {
    if (generation.number == number) return &generation;
  }
  return nullptr;
}

int View::trained() const {
  return static_cast<int>(std::count_if(members.begin(), members.end(), [this](const Member& one) {
    return one.state == MemberState::active && !one.said_bye && current.holds(one.id);
  }));
}

bool View::saving() const {
  return std::any_of(members.begin(), members.end(), [](const Member& member) {
    return member.saves && !member.stopped && member.state != MemberState::gone;
  });
}

bool View::is_spare(const Member& member) const {
  const Generation* next = pending_generation(*this);
  const bool listed = current.holds(member.id) || (next != nullptr && next->holds(member.id));
  return member.state == MemberState::ready && !member.leaving && current.number != 0 && !listed;
}

void newcomers_failed(View& view, TimePoint now) {
  ++view.failed_newcomers;
  view.newcomer_failed_at = now;
  // The first is replaced at once; a second failure in a row is hardly a coincidence.
  const double seconds =
      view.failed_newcomers < 2 ? 0.0 : std::min(8.0, 0.25 * std::exp2(view.failed_newcomers - 2));
  view.retry_at = now + std::chrono::duration_cast<Monotonic::duration>(Seconds(seconds));
}

void forget_failed_newcomers(View& view) {
  view.failed_newcomers = 0;
  view.newcomer_failed_at = TimePoint::min();
  for (Member& member : view.members) member.counts_as_failed = false;
}

void started(View& view, MemberId id, TimePoint now, std::vector<int> slots) {
  if (view.find(id) != nullptr) return;
  Member member;
  member.id = id;
  member.started = member.since = now;
  member.slots = std::move(slots);
  view.members.push_back(member);
}

void recalled(View& view, Generation generation) {
  const uint64_t number = generation.number;
  view.last_generation = std::max(view.last_generation, number);
  if (number <= view.current.number || view.generation(number) != nullptr) return;
  const auto later = std::ranges::upper_bound(view.announced, number, {}, &Generation::number);
  view.announced.insert(later, std::move(generation));
  view.pending = view.announced.back().number;
}

void said_hello(View& view, MemberId id, TimePoint now) {
  Member* member = view.find(id);
  if (member == nullptr || member->state != MemberState::starting) return;
  member->state = MemberState::ready;
  member->since = now;
}

void said_connected(View& view, MemberId id, uint64_t number) {
  Member* member = view.find(id);
  const Generation* generation = view.generation(number);
  if (member == nullptr || generation == nullptr || !generation->holds(id)) return;
  member->connected = std::max(member->connected, number);
}

void said_switched(View& view, MemberId id, uint64_t number, TimePoint now) {
  Member* member = view.find(id);
  const Generation* generation = view.generation(number);
  if (member == nullptr || member->state == MemberState::gone || generation == nullptr) return;
  if (!generation->holds(id) || number <= member->switched) return;
  member->switched = number;
  member->connected = std::max(member->connected, number);
  if (member->state != MemberState::active) {
    member->state = MemberState::active;
    member->since = member->joined = now;
    member->on_trial = !generation->immediate;
    // Nobody trains beside those that start together; if they die, too, that is a breakdown.
    if (generation->immediate) forget_failed_newcomers(view);
  }
  if (number > view.current.number) take_force(view, number, now);
  check_complete(view);
}

void said_lost(View& view, MemberId id, uint64_t number, bool connecting, TimePoint now) {
  const Member* member = view.find(id);
  if (member == nullptr || member->state == MemberState::gone || member->said_bye) return;
  const Generation* generation = view.generation(number);
  if (generation == nullptr || !generation->holds(id) || number < member->switched) return;
  if (view.finishing && !connecting) view.lost_while_finishing = true;
  if (immediate_pending(view)) {
    // A pending immediate generation already replaces whatever broke before it.
    if (number == *view.pending) broke(view, now, false);
    return;
  }
  if (number == view.current.number) {
    broke(view, now, false);
  } else if (connecting) {
    if (view.pending != number) return;
    view.pending.reset();
    newcomers_failed(view, now);
  } else if (member->state == MemberState::active) {
    take_force(view, number, now);  // it had switched, but the message about that was lost
    broke(view, now, false);
  }
}

void said_cut(View& view, MemberId id, MemberId to, uint64_t number, TimePoint now) {
  const Generation* generation = view.generation(number);
  if (generation == nullptr || number <= view.current.number) return;
  for (const MemberId each : {id, to}) {
    const Member* member = view.find(each);
    if (member == nullptr || member->state == MemberState::gone || !generation->holds(each)) return;
  }
  const auto known = std::ranges::find_if(
      view.cuts, [&](const Cut& cut) { return cut.from == id && cut.to == to; });
  if (known != view.cuts.end()) {
    known->heard = now;
  } else {
    view.cuts.push_back({id, to, generation->issued, now});
  }
}

void said_leaving(View& view, MemberId id, TimePoint now) {
  Member* member = view.find(id);
  if (member == nullptr || member->state == MemberState::gone || member->leaving) return;
  member->leaving = true;
  member->since = now;
}

void said_saving(View& view, MemberId id, bool saves, TimePoint now) {
  Member* member = view.find(id);
  if (member == nullptr) return;
  if (member->saves && !saves) view.saved_at = now;
  member->saves = saves;
}

void parted(View& view, MemberId id, TimePoint now) {
  said_leaving(view, id, now);
  view.link_breakdowns = 0;
}

void said_bye(View& view, MemberId id, bool finished, TimePoint now) {
  Member* member = view.find(id);
  if (member == nullptr || member->state == MemberState::gone || member->said_bye) return;
  member->said_bye = true;
  member->since = now;
  if (finished && view.current.holds(id)) {
    view.finishing = true;
    view.finished = view.finished || view.current.members.front() == id;
  }
  check_complete(view);
}

void died(View& view, MemberId id, TimePoint now) {
  Member* member = view.find(id);
  if (member == nullptr || member->state == MemberState::gone) return;
  const MemberState before = member->state;
  const bool proven = before == MemberState::ready && now - member->since >= kSpareTrialTime;
  member->state = MemberState::gone;
  member->since = now;
  if (member->said_bye) return;
  member->died = true;

  const Generation* pending = pending_generation(view);
  const bool in_pending = pending != nullptr && pending->holds(id);
  const bool breaks = immediate_pending(view)
                          ? in_pending
                          : before == MemberState::active && view.current.holds(id);
  if (breaks) {
    if (member->on_trial && view.trained() > 0) {
      count_failed(view, *member, now);
    } else {
      count_breakdown(view, *member, now);
    }
    broke(view, now, true);
  } else if (before != MemberState::active) {
    if (in_pending) {
      if (pending->number == view.current.number) broke(view, now, true);
      view.pending.reset();
    } else if (proven) {
      forget_failed_newcomers(view);
    }
    count_failed(view, *member, now);
  }
  check_complete(view);
}

void excused(View& view, MemberId id, TimePoint now) {
  Member* member = view.find(id);
  if (member == nullptr) return;
  if (std::exchange(member->counts_as_breakdown, false)) --view.breakdowns;
  if (std::exchange(member->counts_as_failed, false)) {
    --view.failed_newcomers;
    view.retry_at = now;
  }
}

void reaped(View& view, MemberId id) {
  std::erase_if(view.members, [&](const Member& member) {
    return member.id == id && member.state == MemberState::gone;
  });
  if (view.find(id) != nullptr) return;
  std::erase_if(view.cuts, [id](const Cut& cut) { return cut.from == id || cut.to == id; });
}

void step_finished(View& view, TimePoint now) {
  view.breakdowns = view.link_breakdowns = 0;
  view.breakdown_at = TimePoint::min();
  for (Member& member : view.members) {
    member.counts_as_breakdown = false;
    if (!member.on_trial || member.state != MemberState::active) continue;
    if (++member.steps < kTrialSteps || now - member.joined < kTrialTime) continue;
    member.on_trial = false;
    forget_failed_newcomers(view);
  }
}

}  // namespace adaptdl::launch
