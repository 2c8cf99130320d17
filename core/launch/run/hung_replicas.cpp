#include "core/launch/run/hung_replicas.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/files.h"

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

// The time between looks at what processes do, and how long a silence is before they are looked at.
constexpr Seconds kWorkTime{0.5};
constexpr Seconds kSilence{1};

}  // namespace

void HungReplicas::progressed(const std::string& kind) {
  if (kind == "checkpoint") return;  // it is written beside the training
  still_.progress(Monotonic::now(), kind);
  told_still_ = false;
}

void HungReplicas::disturbed() {
  watch_.disturbed();
  still_.disturbed();
}

void HungReplicas::restarting() {
  still_.restart();
  told_still_ = false;
}

void HungReplicas::check(const View& view, ReplicaSet& replicas, int64_t step) {
  looks_ = false;
  if (!watch_.on()) return;
  // If one was stopped while it writes a model, the others wait for that.
  if (view.saving()) return watch_.restart();
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
  if (anybody_stopped) {
    // The others may only wait for those, and while a generation is connected they do.
    anybody_waits = anybody_waits || (forming && anybody_runs);
    std::erase_if(absent, [&](Replica* replica) { return !view.find(replica->id)->stopped; });
  }
  const bool held_up = anybody_waits && !absent.empty();
  const bool ordinary = !anybody_stopped && !forming && !view.finishing && !view.broken;
  if (!held_up) {
    watch_.restart();
    told_ = false;
    if (!whole_ || !ordinary) return still_.disturbed();
    return check_still(view, replicas, step);
  }
  if (ordinary) {
    still_.elapse(Monotonic::now());
  } else {
    still_.disturbed();
  }
  check_absent(absent, anybody_stopped, replicas, step);
}

// `stopped`: all of them are, so that they cannot be busy.
void HungReplicas::check_absent(const std::vector<Replica*>& absent, bool stopped,
                                ReplicaSet& replicas, int64_t step) {
  const TimePoint now = Monotonic::now();
  const Activity does = stopped ? Activity::idle : activity(absent, now);
  const bool doubt = !stopped && (does == Activity::active || !still_.known());
  watch_.waiting(now, true, doubt ? StillWatch::kDoubt : 1.0);
  const Seconds patience =
      stopped ? watch_.patience() : std::max(watch_.patience(), still_.patience());
  if (watch_.waited() >= patience) {
    give_up(absent,
            fmt::format("{} for {:.0f} s while the others waited for it",
                        stopped ? "was stopped" : "made no progress", watch_.elapsed().count()),
            watch_.elapsed(), replicas, step);
    if (!stopped) remember(does);
    watch_.restart();
  } else if (!told_ && watch_.waited() >= patience / 2) {
    for (const Replica* replica : absent) {
      report_.talk(
          fmt::format("the others have been waiting for replica {} (process {}) for {:.0f} s; if "
                      "that goes on, it is killed and replaced (--hang-timeout)",
                      replica->id, replica->process->pid(), watch_.elapsed().count()));
    }
    told_ = true;
  }
}

// Processes that did nothing, after progress which others have followed, have hung: there is
// nothing to learn from them.
void HungReplicas::remember(Activity activity) {
  if (activity == Activity::idle && still_.known()) return;
  still_.remember(activity == Activity::active);
}

// What they do; one that does something is enough. Those on other hosts cannot be looked at.
Activity HungReplicas::activity(const std::vector<Replica*>& members, TimePoint now) {
  const Seconds passed = now - worked_at_;
  if (worked_at_ != TimePoint{} && passed < kWorkTime) return activity_;
  std::map<MemberId, ProcessWork> work;
  activity_ = Activity::unknown;
  for (const Replica* replica : members) {
    if (!replica->process->here()) continue;
    const auto found = process_work(replica->process->pid());
    if (!found) continue;
    work[replica->id] = *found;
    const auto before = work_.find(replica->id);
    if (before == work_.end()) continue;
    const bool active = is_active(before->second, *found, passed);
    if (activity_ != Activity::active) activity_ = active ? Activity::active : Activity::idle;
  }
  work_ = std::move(work);
  worked_at_ = now;
  return activity_;
}

void HungReplicas::check_still(const View& view, ReplicaSet& replicas, int64_t step) {
  std::vector<Replica*> members;
  for (const auto& [id, replica] : replicas.all()) {
    const Member* member = view.find(id);
    const bool trains = member != nullptr && member->state == MemberState::active;
    if (trains && replica->open && !replica->said_bye) members.push_back(replica.get());
  }
  if (members.empty()) return still_.disturbed();
  looks_ = true;
  const TimePoint now = Monotonic::now();
  // If nobody can be looked at, they may well be busy.
  const bool idle = still_.silent() >= kSilence && activity(members, now) == Activity::idle;
  still_.look(now, !idle);
  const Seconds patience = std::max(still_.patience(), watch_.patience());
  if (still_.waited() >= patience) {
    give_up(members,
            fmt::format("the whole run made no progress for {:.0f} s", still_.silent().count()),
            still_.silent(), replicas, step);
    remember(idle ? Activity::idle : Activity::active);
    still_.disturbed();
  } else if (!told_still_ && still_.waited() >= patience / 2) {
    report_.talk(
        fmt::format("no replica has made progress for {:.0f} s; if that goes on, all of them are "
                    "killed and restarted from the newest checkpoint (--hang-timeout)",
                    still_.silent().count()));
    told_still_ = true;
  }
}

void HungReplicas::give_up(const std::vector<Replica*>& hung, const std::string& what,
                           Seconds waited, ReplicaSet& replicas, int64_t step) {
  HangFacts facts{.seconds = waited.count(), .step = step};
  std::string text;
  for (Replica* replica : hung) {
    facts.members.push_back(replica->id);
    text += fmt::format("replica {}, process {}: {}\n", replica->id, replica->process->pid(), what);
    text += replica->process->here() ? describe_process(replica->process->pid())
                                     : "(on another host)\n";
    text += fmt::format("the last lines of its log:\n  {}\n\n",
                        fmt::join(replicas.last_lines(replica->id), "\n  "));
  }
  try {
    if (!log_dir_.empty()) {
      const std::string path = join_path(log_dir_, fmt::format("hang-{}.txt", hung.front()->id));
      write_file_atomic(path, text);
      facts.file = path;
    }
  } catch (const Error& error) {
    report_.talk(fmt::format("cannot keep what the replicas were doing: {}", error.what()));
  }
  report_.hang(facts);
  for (Replica* replica : hung) {
    replica->fatal = what + " (--hang-timeout)";
    replica->process->kill();
  }
}

}  // namespace adaptdl::launch
