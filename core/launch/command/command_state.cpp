#include "core/launch/command/command_state.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstddef>

#include "core/base/error.h"
#include "core/launch/slots.h"

namespace adaptdl::launch {

namespace {

constexpr int kRescheduled = static_cast<int>(ExitCode::terminated);

CommandDecision make(CommandAction action, std::string reason,
                     std::optional<TimePoint> deadline = {}) {
  CommandDecision decision;
  decision.action = action;
  decision.reason = std::move(reason);
  decision.deadline = deadline;
  return decision;
}

CommandDecision keep_waiting(std::string reason, std::optional<TimePoint> deadline = {}) {
  return make(CommandAction::wait, std::move(reason), deadline);
}

// The exit statuses of a replica that was asked to stop.
bool is_clean_stop(const ExitStatus& status) {
  return status.signaled ? status.value == SIGTERM : status.value == kRescheduled;
}

// What Ctrl-C makes of programs that do not save.
bool is_interrupted(const ExitStatus& status) {
  return status.signaled ? status.value == SIGINT : status.value == 128 + SIGINT;
}

// Why the generation must change, or "".
std::string outdated(const CommandView& view) {
  const int present = static_cast<int>(view.replicas.size());
  if (view.target != present) {
    return fmt::format("rescaling from {} to {} replicas", present, view.target);
  }
  const bool lost = std::any_of(view.held.begin(), view.held.end(), [&](int slot) {
    return std::find(view.slots.begin(), view.slots.end(), slot) == view.slots.end();
  });
  return lost ? "moving to other slots" : "";
}

// Until when more hosts are waited for; nothing: they are not.
std::optional<TimePoint> gathers_until(TimePoint now, const CommandView& view,
                                       const CommandRules& rules) {
  if (!view.newest_host) return std::nullopt;
  const TimePoint until = std::min(time_after(*view.newest_host, rules.together),
                                   time_after(*view.first_host, rules.longest_together));
  return now < until ? std::optional(until) : std::nullopt;
}

CommandDecision between(TimePoint now, const CommandView& view, const CommandRules& rules) {
  if (view.finished) return make(CommandAction::finish, "finished");
  if (view.stop != CommandStop::none) return make(CommandAction::stopped, "stopped");
  if (view.failures > rules.max_failures) {
    return make(
        CommandAction::give_up,
        fmt::format("{} failures{}; {} {} allowed", view.failures, rules.in_row ? " in a row" : "",
                    rules.max_failures, rules.max_failures == 1 ? "is" : "are"));
  }
  if (now < view.retry_at) {
    if (view.disk_full) return keep_waiting("waiting for room on the disk", view.retry_at);
    return keep_waiting(
        fmt::format("failed; waiting to restart ({} of {})", view.failures, rules.max_failures),
        view.retry_at);
  }
  if (!view.supervisor_up) {
    return keep_waiting("waiting for the supervisor to answer", time_after(now, rules.probe));
  }
  if (const auto until = gathers_until(now, view, rules)) {
    return keep_waiting("a host has come; waiting for others that come now", until);
  }
  const int most = view.slots.empty()
                       ? view.target
                       : static_cast<int>(view.slots.size()) / rules.slots_per_replica;
  CommandDecision decision = make(CommandAction::start, "starting");
  decision.count = std::min(view.target, most);
  if (!view.slots.empty()) {
    const auto count = std::ptrdiff_t{decision.count} * rules.slots_per_replica;
    decision.slots = {view.slots.begin(), view.slots.begin() + count};
  }
  return decision;
}

}  // namespace

int CommandView::living() const {
  return static_cast<int>(std::count_if(replicas.begin(), replicas.end(),
                                        [](const CommandReplica& r) { return r.alive; }));
}

CommandDecision decide(TimePoint now, const CommandView& view, const CommandRules& rules) {
  if (view.replicas.empty()) return between(now, view, rules);
  const int all = static_cast<int>(view.replicas.size());
  const std::string rest = fmt::format("waiting for {} of {} replicas to end", view.living(), all);
  if (view.killed) return keep_waiting(rest);
  if (view.stop == CommandStop::now) return make(CommandAction::kill, "stopping at once");
  if (view.kill_at) {
    if (now < *view.kill_at) return keep_waiting(rest, view.kill_at);
    return make(CommandAction::kill,
                fmt::format("{} of {} replicas did not end in time", view.living(), all));
  }
  if (view.stop != CommandStop::none) {
    return make(CommandAction::terminate, "stopping", time_after(now, rules.grace));
  }
  if (view.failed_at) {
    // Others may have received the same signal from outside: let all write their checkpoint
    // together. One that was killed shares its reason with nobody.
    const bool killed = view.replicas.at(static_cast<size_t>(view.failed_rank)).status.signaled;
    const TimePoint until = time_after(*view.failed_at, view.asked_outside ? rules.grace
                                                        : killed           ? Seconds(0)
                                                                           : rules.settle);
    if (now < until) return keep_waiting(rest, until);
    return make(CommandAction::terminate, fmt::format("replica {} failed", view.failed_rank),
                time_after(now, rules.failed_grace));
  }
  if (view.living() < all) return keep_waiting("finishing; " + rest);
  if (const std::string change = outdated(view); !change.empty()) {
    if (const auto until = gathers_until(now, view, rules); until && view.target > all) {
      return keep_waiting(change + " once no more hosts come", until);
    }
    return make(CommandAction::terminate, change, time_after(now, rules.grace));
  }
  return keep_waiting(fmt::format("{} replica{} running", all, all == 1 ? "" : "s"));
}

void apply(CommandView& view, const CommandDecision& decision, TimePoint now) {
  switch (decision.action) {
    case CommandAction::start:
      view.replicas.assign(static_cast<size_t>(decision.count), {});
      view.target = decision.count;
      view.held = decision.slots;
      view.started = now;
      view.first_host.reset();
      view.newest_host.reset();
      break;
    case CommandAction::terminate:
      view.kill_at = decision.deadline;
      break;
    case CommandAction::kill:
      view.killed = true;
      break;
    default:
      break;
  }
}

void start_failed(CommandView& view, TimePoint now, const CommandRules& rules) {
  view.replicas.clear();
  view.held.clear();
  view.disk_full = true;
  view.retry_at = time_after(now, rules.disk_probe);
}

void host_came(CommandView& view, bool all, TimePoint now) {
  view.newest_host = all ? std::nullopt : std::optional(now);
  if (!view.first_host) view.first_host = now;
}

void exited(CommandView& view, int rank, const ExitStatus& status, TimePoint now) {
  CommandReplica& replica = view.replicas.at(static_cast<size_t>(rank));
  if (!replica.alive) return;
  replica.alive = false;
  replica.status = status;
  if (status.success() || view.failed_at) return;
  if (view.killed && status.signaled && status.value == SIGKILL) return;
  if (view.kill_at && is_clean_stop(status)) return;
  if (view.kill_at && view.stop != CommandStop::none && is_interrupted(status)) return;
  view.failed_at = now;
  view.failed_rank = rank;
  view.asked_outside = !view.kill_at && is_clean_stop(status);
}

bool can_restart(const CommandView& view) {
  return view.kill_at && !view.replicas.empty() &&
         std::all_of(view.replicas.begin(), view.replicas.end(), [](const CommandReplica& r) {
           return !r.status.signaled && r.status.value == kRescheduled;
         });
}

bool finished_when_asked(const CommandView& view) {
  return view.kill_at && view.stop == CommandStop::none && !view.replicas.empty() &&
         std::all_of(view.replicas.begin(), view.replicas.end(),
                     [](const CommandReplica& r) { return r.status.success(); });
}

bool forgives(const CommandView& view, bool progress, TimePoint now, const CommandRules& rules) {
  return rules.in_row && (progress || now >= time_after(view.started, rules.long_life));
}

void generation_ended(CommandView& view, bool progress, TimePoint now, const CommandRules& rules) {
  ADAPTDL_CHECK(view.living() == 0);
  view.finished = std::all_of(view.replicas.begin(), view.replicas.end(),
                              [](const CommandReplica& r) { return r.status.success(); });
  // Programs that end with 0 on SIGTERM have not finished.
  if (view.stop != CommandStop::none && view.kill_at) view.finished = false;
  const bool asked = view.asked_outside && progress;
  if (forgives(view, progress, now, rules)) view.failures = 0;
  if (view.failed_at && !asked) {
    const double wait =
        view.failures == 0 ? 0 : rules.backoff.count() * std::exp2(std::min(view.failures - 1, 30));
    view.retry_at =
        std::max(now, time_after(view.started, std::min(Seconds(wait), rules.longest_backoff)));
    ++view.failures;
  }
  view.replicas.clear();
  view.held.clear();
  view.failed_at.reset();
  view.failed_rank = -1;
  view.asked_outside = view.killed = false;
  view.kill_at.reset();
}

}  // namespace adaptdl::launch
