#include "core/launch/run/rendezvous.h"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>

namespace adaptdl::launch {

namespace {

using Ids = std::vector<MemberId>;

template <typename T>
bool holds(const std::vector<T>& all, T one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

std::string names(const Ids& ids) {
  return fmt::format("{} {}", ids.size() == 1 ? "replica" : "replicas", fmt::join(ids, ", "));
}

Decision wait(std::string reason, std::optional<TimePoint> deadline = {}) {
  Decision decision;
  decision.reason = std::move(reason);
  decision.deadline = deadline;
  return decision;
}

Decision act(Action action, std::string reason) {
  Decision decision;
  decision.action = action;
  decision.reason = std::move(reason);
  return decision;
}

constexpr int kMostDoubled = 4;  // times that the pause after broken links doubles

// One call of decide().
class Deciding {
 public:
  Deciding(TimePoint now, const View& view, const RendezvousOptions& options)
      : now_(now), view_(view), options_(options) {
    free_ = options.slots;
    for (const Member& member : view.members) {
      std::erase_if(free_, [&](int slot) { return holds(member.slots, slot); });
      if (member.state == MemberState::gone || member.said_bye) continue;
      switch (member.state) {
        case MemberState::starting:
          (displaced(member) ? misplaced_ : starting_).push_back(member.id);
          break;
        case MemberState::ready:
          (displaced(member) ? misplaced_
           : member.leaving  ? unwanted_
                             : ready_)
              .push_back(member.id);
          break;
        default:
          if (!holds(view.current.members, member.id)) break;
          trained_.push_back(member.id);
      }
    }
    // In rank order, so that the survivors' ranks change as little as possible.
    Ids ordered;
    for (const MemberId id : view.current.members) {
      if (holds(trained_, id)) ordered.push_back(id);
    }
    trained_ = ordered;
    for (const MemberId id : trained_) {
      if (view.find(id)->leaving) continue;
      staying_.push_back(id);
      if (!displaced(*view.find(id))) settled_.push_back(id);
    }
  }

  Decision decide() const {
    if (auto decision = unexplained_deaths()) return *decision;
    if (view_.breakdowns > options_.max_restarts && !view_.stopping) {
      return act(
          Action::give_up,
          fmt::format("{} breakdowns in a row without a finished step in between; {} are allowed",
                      view_.breakdowns, options_.max_restarts));
    }
    if (view_.link_breakdowns > options_.max_restarts && !view_.stopping &&
        now_ >= time_after(view_.links_break_since, options_.links_patience)) {
      return act(Action::give_up,
                 fmt::format("links between replicas broke {} times in a row without a finished "
                             "step in between, for more than {:.0f} s",
                             view_.link_breakdowns, options_.links_patience.count()));
    }
    if (view_.finished) return wait("finished; waiting for the replicas to end");
    if (auto decision = overdue_leavers()) return *decision;
    if (view_.broken) return repair();
    if (view_.handing_over && !view_.stopping) return handing_over();
    if (view_.current.number != 0 && trained_.empty() && !forming_anew() && !view_.stopping) {
      return act(Action::restart, "no replica with state is left");
    }
    if (view_.pending) return pending();
    if (view_.stopping) return wait("stopping; waiting for the replicas to end");
    if (view_.finishing) return wait("finishing; waiting for rank 0");
    return view_.current.number == 0 ? form() : change();
  }

 private:
  // How a replica ended may excuse its death (excused()), and change what the next generation is
  // told. Its process ends right after its channel.
  std::optional<Decision> unexplained_deaths() const {
    Ids ids;
    TimePoint until = TimePoint::max();
    for (const Member& member : view_.members) {
      const TimePoint known = time_after(member.since, options_.exit_settle);
      if (member.state != MemberState::gone || !member.died || now_ >= known) continue;
      ids.push_back(member.id);
      until = std::min(until, known);
    }
    if (ids.empty()) return std::nullopt;
    return wait("waiting to learn how " + names(ids) + " ended", until);
  }

  // --- the generation in force, or the immediate one, broke
  Decision repair() const {
    Ids survivors = staying_;
    // A pending generation leaves members out: they may have left already.
    const Generation* pending = view_.pending ? view_.generation(*view_.pending) : nullptr;
    if (pending != nullptr) {
      std::erase_if(survivors, [&](MemberId id) { return !holds(pending->members, id); });
    }
    if (survivors.empty()) survivors = trained_;
    const bool links_only = !view_.death;
    // Members that train, or are about to, and have not reported it yet. They may have the state,
    // too, and would wait forever in a generation that the others have left.
    const Ids unheard = unheard_members();
    const TimePoint heard_by = time_after(*view_.broken, options_.settle);
    if (!unheard.empty() && now_ < heard_by) {
      return wait("links broke; waiting for messages from " + names(unheard), heard_by);
    }
    if (survivors.empty()) {
      if (view_.stopping) return wait("stopping; no replica with state is left");
      return act(Action::restart, "no replica with state is left");
    }
    // While members say bye one after another, a death matters only to members that lost their
    // links.
    if (view_.finishing && view_.death && !view_.lost_while_finishing) {
      return wait("finishing; waiting for the replicas to end");
    }
    const TimePoint settled = time_after(
        *view_.broken, options_.lost_settle * (1 << std::min(view_.link_breakdowns, kMostDoubled)));
    if (links_only && now_ < settled) {
      return wait("links broke; waiting to learn which replica died", settled);
    }
    if (!unheard.empty()) {
      return dismiss(unheard, names(unheard) + " joined the broken generation too late", false);
    }
    Decision decision = announce(survivors, true, links_only ? "links" : "death");
    decision.reason =
        fmt::format("{} of {} replicas continue", survivors.size(), view_.current.members.size());
    return decision;
  }

  // Of the generation in force. Members of a later one are left out: they will join that one.
  Ids unheard_members() const {
    Ids ids;
    for (const MemberId id : view_.current.members) {
      const Member* member = view_.find(id);
      if (member == nullptr || member->state != MemberState::ready || member->said_bye) continue;
      ids.push_back(id);
    }
    return ids;
  }

  // Whether an immediate generation is pending and one of its members can still join it.
  bool forming_anew() const {
    if (!view_.pending || !view_.generation(*view_.pending)->immediate) return false;
    const Ids& members = view_.generation(*view_.pending)->members;
    return std::any_of(members.begin(), members.end(), [&](MemberId id) {
      const Member* member = view_.find(id);
      return member != nullptr && member->state != MemberState::gone && !member->said_bye;
    });
  }

  Decision handing_over() const {
    const TimePoint deadline =
        view_.saving()
            ? time_after(*view_.handing_over, std::max(kLongestSave, options_.leave_timeout))
            : time_after(std::max(*view_.handing_over, view_.saved_at), options_.leave_timeout);
    if (trained_.empty())
      return act(Action::restart, "the last members have handed over their state");
    if (now_ < deadline) {
      return wait(names(trained_) + " leaving; writing a checkpoint for the successors", deadline);
    }
    return dismiss(trained_, names(trained_) + " did not leave in time", false);
  }

  Decision pending() const {
    const Generation& next = *view_.generation(*view_.pending);
    Ids unconnected, late;
    for (const MemberId id : next.members) {
      const Member* member = view_.find(id);
      if (member == nullptr || member->connected >= next.number) continue;
      unconnected.push_back(id);
      if (member->state == MemberState::ready) late.push_back(id);
    }
    if (unconnected.empty()) {
      return wait(
          fmt::format("generation {} is connected; waiting for the end of a step", next.number));
    }
    const TimePoint deadline = time_after(next.issued, options_.connect_timeout);
    // Wait for members with state as long as they live: they may be stopped, or slow.
    const bool fault_of_newcomers =
        !next.immediate && !late.empty() && next.number != view_.current.number;
    if (fault_of_newcomers && now_ >= deadline) {
      return dismiss(late, names(late) + " did not connect in time", true);
    }
    Ids stopped;
    for (const MemberId id : unconnected) {
      if (view_.find(id)->stopped) stopped.push_back(id);
    }
    return wait(fmt::format("generation {} is connecting; waiting for {}{}", next.number,
                            names(unconnected),
                            stopped.empty() ? "" : " (stopped: " + names(stopped) + ")"),
                fault_of_newcomers ? std::optional(deadline) : std::nullopt);
  }

  // --- no replica trains: wait for all requested replicas, then start together
  Decision form() const {
    if (auto decision = common()) return *decision;
    const int ready = static_cast<int>(ready_.size());
    const bool failing = view_.failed_newcomers > options_.max_restarts;
    const TimePoint deadline = time_after(view_.forming_since, options_.start_timeout);
    const bool no_more = starting_.empty() && failing;
    if (ready >= view_.target || (ready >= options_.min && (now_ >= deadline || no_more))) {
      Decision decision =
          announce(first(ready_, view_.target), true, view_.formed ? "restart" : "start");
      decision.reason = fmt::format("{} of {} requested replicas are ready", ready, view_.target);
      return decision;
    }
    if (no_more) {
      return act(Action::give_up,
                 fmt::format("{} replicas in a row failed to start", view_.failed_newcomers));
    }
    return waiting_for_start(fmt::format("{} of {} replicas are ready", ready, view_.target),
                             now_ < deadline ? std::optional(deadline) : std::nullopt);
  }

  // --- members train: adapt to the target beside them
  Decision change() const {
    if (auto decision = common()) return *decision;
    const bool failing = view_.failed_newcomers > options_.max_restarts;
    if (failing) {
      Ids unproven;
      for (const MemberId id : ready_) {
        if (now_ - view_.find(id)->since < kSpareTrialTime) unproven.push_back(id);
      }
      if (!unproven.empty()) return dismiss(unproven, "new replicas failed too often", false);
    }
    if (staying_.empty()) return succession(failing);

    // When all members must move to other slots, they train until their successors are ready. One
    // of them then stays with the successors until these have its state.
    const bool moving = settled_.empty();
    Ids kept = first(settled_, view_.target);
    const size_t room = static_cast<size_t>(view_.target) - kept.size();
    const Ids joining = now_ >= view_.retry_at ? first(ready_, static_cast<int>(room)) : Ids{};
    if (moving) {
      const bool blocked = no_place_beside();
      if (blocked && staying_.size() == 1) {
        return act(Action::hand_over, names(staying_) + " must free its slots for its successor");
      }
      kept = joining.empty() && !blocked ? staying_ : first(staying_, 1);
    }
    const bool someone_out = kept.size() < trained_.size();
    if (!joining.empty() && joining.size() < room && !starting_.empty() &&
        (moving || !someone_out)) {
      TimePoint earliest = now_;
      for (const MemberId id : joining) earliest = std::min(earliest, view_.find(id)->since);
      const TimePoint settled = time_after(earliest, options_.settle);
      if (now_ < settled) {
        return waiting_for_start(
            fmt::format("{} of {} new replicas are ready", joining.size(), room), settled);
      }
    }
    if (someone_out || !joining.empty()) {
      Ids members = kept;
      members.insert(members.end(), joining.begin(), joining.end());
      const bool leave = staying_.size() < trained_.size();
      std::string cause = view_.target_cause;
      if (leave && joining.empty()) cause = "leave";
      if (cause.empty()) cause = settled_.size() < staying_.size() ? "slots" : "replacement";
      Decision decision = announce(members, false, cause);
      decision.reason =
          fmt::format("{} join, {} leave", joining.size(), trained_.size() - kept.size());
      return decision;
    }
    if (room == 0) return all_train(failing);
    if (moving && !failing) {
      return waiting_for_start(names(staying_) + " must move to other slots", std::nullopt);
    }
    if (failing) {
      const bool may_join_later = !ready_.empty() && now_ < view_.retry_at;
      return wait(fmt::format("{} new replicas in a row failed; {} of {} replicas continue",
                              view_.failed_newcomers, kept.size(), view_.target),
                  may_join_later ? std::optional(view_.retry_at) : std::nullopt);
    }
    return waiting_for_start(
        fmt::format("{} of {} replicas are training", kept.size(), view_.target), std::nullopt);
  }

  Decision all_train(bool failing) const {
    std::string reason = "all requested replicas are training";
    if (options_.spares == 0) return wait(std::move(reason));
    reason += fmt::format("; {} of {} spares are ready", ready_.size(), options_.spares);
    if (failing) return wait(reason + ", and new ones failed too often");
    if (starting_.empty() && static_cast<int>(ready_.size()) >= options_.spares)
      return wait(reason);
    return waiting_for_start(std::move(reason), std::nullopt);
  }

  // No replica can be started beside the members, and none is about to end or to join.
  bool no_place_beside() const {
    return free_slots() == 0 && ready_.empty() && view_.members.size() == trained_.size();
  }

  // All members want to leave. The bounds may not allow another replica beside them. So their
  // successors continue from a checkpoint, which is written when they are ready to read it.
  Decision succession(bool failing) const {
    TimePoint since = now_;
    for (const MemberId id : trained_) since = std::min(since, view_.find(id)->since);
    const TimePoint deadline = time_after(since, options_.leave_timeout);
    const bool ready = static_cast<int>(ready_.size()) >= std::min(view_.target, free_slots());
    const bool hopeless = starting_.empty() && (failing || free_slots() == 0);
    if (ready || hopeless || now_ >= deadline) {
      return act(Action::hand_over,
                 names(trained_) + " leaving, and no other replica has the state");
    }
    return waiting_for_start(names(trained_) + " leaving; successors are starting", deadline);
  }

  // Newcomers: unwanted, too many, too late or too few.
  std::optional<Decision> common() const {
    if (!unwanted_.empty()) return dismiss(unwanted_, names(unwanted_) + " asked to leave", false);
    if (!misplaced_.empty()) {
      return dismiss(misplaced_, names(misplaced_) + " started on slots that the run has lost",
                     false);
    }
    Ids late;
    for (const MemberId id : starting_) {
      if (now_ >= time_after(view_.find(id)->since, options_.start_timeout)) late.push_back(id);
    }
    if (!late.empty()) return dismiss(late, names(late) + " did not start in time", true);

    Ids newcomers = ready_;  // the most advanced ones stay
    newcomers.insert(newcomers.end(), starting_.begin(), starting_.end());
    const size_t members = view_.current.number == 0 ? 0 : settled_.size();
    const size_t target = static_cast<size_t>(view_.target);
    const size_t room = target > members ? target - members : 0;
    const size_t most = room + static_cast<size_t>(options_.spares);
    if (newcomers.size() > most) {
      const Ids surplus(newcomers.begin() + static_cast<long>(most), newcomers.end());
      return dismiss(surplus, names(surplus) + " no longer needed", false);
    }
    // The start of a spare must not slow down that of a member, or its first steps.
    const size_t wanted = room > 0 ? room : most;
    const int lacking = static_cast<int>(wanted) - static_cast<int>(newcomers.size());
    const int missing = std::min(lacking, free_slots());
    if (missing > 0 && now_ >= view_.retry_at && view_.failed_newcomers <= options_.max_restarts) {
      Decision decision = act(Action::start, fmt::format("{} more {} requested", missing,
                                                         room > 0 ? "replicas" : "spares"));
      decision.count = missing;
      if (!free_.empty()) {
        const auto count = std::ptrdiff_t{missing} * options_.slots_per_replica;
        decision.slots.assign(free_.begin(), free_.begin() + count);
      }
      return decision;
    }
    return std::nullopt;
  }

  // Replicas that are no longer members end by themselves, but need a deadline.
  std::optional<Decision> overdue_leavers() const {
    Ids late;
    for (const Member& member : view_.members) {
      if (member.state == MemberState::gone || now_ < leave_deadline(member)) continue;
      late.push_back(member.id);
    }
    if (late.empty()) return std::nullopt;
    return dismiss(late, names(late) + " did not leave in time", false);
  }

  TimePoint leave_deadline(const Member& member) const {
    const bool out = member.said_bye || (member.state == MemberState::active &&
                                         !holds(view_.current.members, member.id));
    const bool listed =
        view_.pending && holds(view_.generation(*view_.pending)->members, member.id);
    if (!out || (listed && !member.said_bye)) return TimePoint::max();
    return time_after(member.since, options_.leave_timeout);
  }

  Decision waiting_for_start(std::string reason, std::optional<TimePoint> deadline) const {
    auto sooner = [&](TimePoint time) {
      if (time > now_ && (!deadline || time < *deadline)) deadline = time;
    };
    for (const MemberId id : starting_) {
      sooner(time_after(view_.find(id)->since, options_.start_timeout));
    }
    sooner(view_.retry_at);
    if (!starting_.empty())
      reason += "; waiting for " + names(starting_) + " to start";
    else if (free_slots() == 0)
      reason += "; waiting for a free slot";
    return wait(std::move(reason), deadline);
  }

  Decision announce(Ids members, bool immediate, std::string cause) const {
    Decision decision = act(Action::announce, "");
    decision.generation = {view_.last_generation + 1, std::move(members), immediate,
                           std::move(cause), now_};
    for (const MemberId id : trained_) {
      if (!holds(decision.generation.members, id)) decision.leavers.push_back(id);
    }
    return decision;
  }

  static Decision dismiss(Ids ids, std::string reason, bool failure) {
    Decision decision = act(Action::dismiss, std::move(reason));
    decision.dismissed = std::move(ids);
    decision.failure = failure;
    return decision;
  }

  static Ids first(const Ids& ids, int count) {
    return {ids.begin(), ids.begin() + std::min<long>(count, static_cast<long>(ids.size()))};
  }

  bool displaced(const Member& member) const {
    return limited() && std::any_of(member.slots.begin(), member.slots.end(),
                                    [this](int slot) { return !holds(options_.slots, slot); });
  }

  bool limited() const { return options_.needs_slots || !options_.slots.empty(); }

  // Replicas that may be started now.
  int free_slots() const {
    if (!limited()) return 1 << 20;
    return static_cast<int>(free_.size()) / options_.slots_per_replica;
  }

  const TimePoint now_;
  const View& view_;
  const RendezvousOptions& options_;
  std::vector<int> free_;            // slots that no process has
  Ids starting_, ready_, unwanted_;  // no members yet; unwanted: asked to leave meanwhile
  Ids misplaced_;                    // no members yet, on slots that the run has lost
  Ids trained_;                      // of the current generation, with state; in order of rank
  Ids staying_;                      // ... that have not asked to leave
  Ids settled_;                      // ... and are on slots of the run
};

}  // namespace

Decision decide(TimePoint now, const View& view, const RendezvousOptions& options) {
  Decision decision = Deciding(now, view, options).decide();
  if (decision.action != Action::wait) return decision;
  // Leaving replicas have a deadline, whatever else is pending.
  for (const Member& member : view.members) {
    const bool out = member.said_bye || (member.state == MemberState::active &&
                                         !holds(view.current.members, member.id));
    if (member.state == MemberState::gone || !out) continue;
    const TimePoint deadline = time_after(member.since, options.leave_timeout);
    if (deadline > now && (!decision.deadline || deadline < *decision.deadline)) {
      decision.deadline = deadline;
    }
  }
  return decision;
}

void apply(View& view, const Decision& decision, TimePoint now) {
  switch (decision.action) {
    case Action::wait:
    case Action::start:
    case Action::give_up:
      break;
    case Action::announce: {
      if (decision.generation.immediate) {
        // Broken links without a death, and without a stopped replica as the cause, must not repeat
        // forever, either.
        const bool stopped = std::any_of(view.members.begin(), view.members.end(),
                                         [](const Member& member) { return member.stopped; });
        if (view.broken && !view.death && !stopped && view.link_breakdowns++ == 0) {
          view.links_break_since = *view.broken;
        }
        view.broken.reset();
        view.death = view.lost_while_finishing = false;
      }
      view.announced.push_back(decision.generation);
      view.pending = decision.generation.number;
      view.last_generation = decision.generation.number;
      break;
    }
    case Action::dismiss:
      for (const MemberId id : decision.dismissed) {
        Member* member = view.find(id);
        if (member == nullptr) continue;
        const Generation* pending = view.pending ? view.generation(*view.pending) : nullptr;
        if (pending != nullptr && !pending->immediate && pending->holds(id) &&
            pending->number != view.current.number) {
          view.pending.reset();
        }
        member->state = MemberState::gone;
        member->since = now;
      }
      if (decision.failure) newcomers_failed(view, now);
      break;
    case Action::hand_over:
      view.handing_over = now;
      break;
    case Action::restart:
      // Members that leave without a reason must not cause restarts forever.
      if (!view.broken && !view.handing_over) ++view.breakdowns;
      view.current = {};
      view.announced.clear();
      view.pending.reset();
      view.broken.reset();
      view.death = view.finishing = view.finished = view.lost_while_finishing = false;
      view.handing_over.reset();
      view.forming_since = now;
      break;
  }
}

void set_target(View& view, int target, const std::string& cause,
                const RendezvousOptions& options) {
  const int wanted = std::clamp(target, options.min, options.max);
  forget_failed_newcomers(view);
  if (wanted == view.target) return;
  view.target = wanted;
  view.target_cause = cause;
}

void request_target(View& view, int target, const std::string& cause, RendezvousOptions& options) {
  options.min = std::min(options.min, target);
  options.max = std::max(options.max, target);
  set_target(view, target, cause, options);
}

}  // namespace adaptdl::launch
