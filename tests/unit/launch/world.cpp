#include "tests/unit/launch/world.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>

namespace adaptdl::launch::testing {

using std::chrono::milliseconds;

namespace {

bool holds(const Generation& generation, MemberId id) {
  return std::count(generation.members.begin(), generation.members.end(), id) != 0;
}

}  // namespace

World::World(uint64_t seed, int min, int max, int target, int slots, int slots_per_replica,
             int spares)
    : random_(seed) {
  options_.spares = spares;
  options_.min = min;
  options_.max = max;
  options_.slots.resize(static_cast<size_t>(slots) * static_cast<size_t>(slots_per_replica));
  std::iota(options_.slots.begin(), options_.slots.end(), 0);
  options_.slots_per_replica = slots_per_replica;
  options_.start_timeout = Seconds(5);
  options_.connect_timeout = Seconds(3);
  options_.leave_timeout = Seconds(3);
  now_ = TimePoint(std::chrono::hours(1));
  view_.target = target;
  view_.forming_since = calm_since_ = last_step_ = now_;
}

void World::complain(const std::string& what) {
  if (complaints_.size() < 5) complaints_.push_back(what + "\n  " + describe());
}

std::string World::describe() const {
  std::string text = fmt::format("at {:.2f} s, step {}, current {} [{}], pending {}, target {}: {}",
                                 seconds_between(TimePoint(std::chrono::hours(1)), now_), step_,
                                 view_.current.number, fmt::join(view_.current.members, " "),
                                 view_.pending.value_or(0), view_.target, reason_);
  for (const Worker& w : workers_) {
    if (!w.alive) continue;
    text += fmt::format("\n    {}: in {}{}{}{}{}, newest {}", w.id, w.in ? w.in->number : 0,
                        w.working ? "" : " broken", w.synced ? " synced" : "",
                        w.trained ? " trained" : "", w.stopped ? " stopped" : "", w.newest);
  }
  return text;
}

TimePoint World::soon(int most_ms) {
  return now_ + milliseconds(std::uniform_int_distribution<int>(0, most_ms)(random_));
}

bool World::chance(double probability) {
  return std::uniform_real_distribution<double>(0, 1)(random_) < probability;
}

World::Worker* World::worker(MemberId id) {
  for (Worker& w : workers_) {
    if (w.id == id) return &w;
  }
  return nullptr;
}

// Messages of one sender stay in order.
void World::tell(Worker& worker, Message::Kind kind, uint64_t generation, bool connecting) {
  TimePoint at = soon(30);
  if (!worker.outbox.empty()) at = std::max(at, worker.outbox.back().at);
  worker.outbox.push_back({at, kind, generation, connecting});
}

void World::kill(Worker& worker) {
  if (!worker.alive) return;
  worker.alive = false;
  worker.death_seen_at = soon(40);
  if (!worker.outbox.empty()) {
    worker.death_seen_at = std::max(worker.death_seen_at, worker.outbox.back().at);
  }
  worker.reap_at = worker.death_seen_at + milliseconds(30);
  // Survivors of the generation it was in may be held up by that.
  for (const Worker& other : workers_) {
    if (other.in && holds(*other.in, worker.id)) calm_since_ = now_;
    if (other.next && holds(*other.next, worker.id)) calm_since_ = now_;
  }
}

void World::signal_leave(MemberId id) {
  if (Worker* w = worker(id); w != nullptr && w->alive && w->said_hello) tell(*w, Message::leaving);
}

void World::have_accidents(const Accidents& accidents) {
  for (Worker& w : workers_) {
    if (!w.alive) continue;
    if (chance(accidents.kill)) kill(w);
    if (chance(accidents.leave)) signal_leave(w.id);
    if (chance(accidents.stop)) {
      w.stopped = !w.stopped;
      if (Member* member = view_.find(w.id)) member->stopped = w.stopped;
    }
    if (chance(accidents.stale)) check_stale(w.id);
  }
  if (chance(accidents.break_links) && view_.current.number != 0) {
    broken_links_.insert(view_.current.number);
    calm_since_ = now_;
  }
  if (chance(accidents.scale)) {
    set_target(view_, std::uniform_int_distribution<int>(0, options_.max + 1)(random_), "scale",
               options_);
  }
  if (chance(accidents.move)) {
    std::vector<int> all(2 * options_.slots.size());
    std::iota(all.begin(), all.end(), 0);
    std::shuffle(all.begin(), all.end(), random_);
    all.resize(options_.slots.size());
    set_slots(std::move(all));
  }
}

void World::set_slots(std::vector<int> slots) {
  options_.slots = std::move(slots);
}

bool World::displaced(MemberId id) const {
  const auto& slots = view_.find(id)->slots;
  return !options_.slots.empty() && std::any_of(slots.begin(), slots.end(), [&](int slot) {
    return std::count(options_.slots.begin(), options_.slots.end(), slot) == 0;
  });
}

// An old message once more must change nothing at all.
void World::check_stale(MemberId id) {
  const Member* member = view_.find(id);
  if (member == nullptr || member->switched == 0) return;
  const auto old = std::uniform_int_distribution<uint64_t>(0, member->switched - 1)(random_);
  View copy = view_;
  said_connected(copy, id, old);
  said_switched(copy, id, old, now_);
  said_lost(copy, id, old, chance(0.5), now_);
  const Decision before = decide(now_, view_, options_), after = decide(now_, copy, options_);
  if (copy.current.number != view_.current.number || copy.pending != view_.pending ||
      copy.broken != view_.broken || copy.find(id)->switched != member->switched ||
      copy.find(id)->connected != member->connected || before.action != after.action ||
      before.generation.members != after.generation.members) {
    complain(fmt::format("a message of generation {} from {} changed something", old, id));
  }
}

void World::end_accidents() {
  for (Worker& w : workers_) {
    w.stopped = false;
    if (Member* member = view_.find(w.id)) member->stopped = false;
  }
  broken_links_.clear();
  calm_since_ = now_;
}

void World::enter(Worker& w, const Generation& generation) {
  w.in = generation;
  w.working = true;
  w.synced = false;
  w.next.reset();
  w.notice_at = TimePoint::max();
}

void World::leave(Worker& w) {
  tell(w, Message::bye);
  w.gone_by_itself = true;
  w.die_at = std::max(soon(50), w.outbox.back().at + milliseconds(1));
}

void World::work(Worker& w) {
  if (now_ >= w.die_at) kill(w);
  if (!w.alive || w.stopped || w.gone_by_itself) return;
  if (!w.said_hello && !w.never_hello && now_ >= w.hello_at) {
    w.said_hello = true;
    tell(w, Message::hello);
  }
  while (!w.inbox.empty() && w.inbox.front().at <= now_) {
    const Told told = w.inbox.front();
    w.inbox.pop_front();
    if (told.hand_over) {
      w.checkpoint_asked = true;
      continue;
    }
    if (told.generation.number <= w.newest) continue;
    w.newest = told.generation.number;
    w.connecting = told.generation;
    w.next.reset();
    if (told.generation.immediate || !w.trained) w.working = false;
  }
  // Not a member: nothing to connect.
  if (w.connecting && !holds(*w.connecting, w.id)) {
    w.next = w.connecting;
    w.connecting.reset();
  }
  // A generation that lost a member breaks for all others in it, a little later.
  if (w.in && w.working) {
    bool broken = broken_links_.count(w.in->number) != 0;
    for (const MemberId id : w.in->members) {
      const Worker* other = worker(id);
      const bool there = other->alive && !other->gone_by_itself && other->in &&
                         (other->in->number < w.in->number ||
                          (other->in->number == w.in->number && other->working));
      if (!there && !(other->alive && !other->gone_by_itself && !other->in)) broken = true;
    }
    if (broken && w.notice_at == TimePoint::max()) w.notice_at = soon(50);
    if (broken && now_ >= w.notice_at) {
      w.working = false;
      tell(w, Message::lost, w.in->number);
    }
  }
  if ((!w.in || !w.working) && w.next && (w.next->immediate || !w.trained)) {
    if (holds(*w.next, w.id)) {
      enter(w, *w.next);
    } else {
      leave(w);
    }
  }
}

// Links of a generation come up when all its members make them at the same time.
void World::connect_links() {
  for (Worker& w : workers_) {
    if (!w.alive || w.stopped || !w.connecting || w.gone_by_itself) continue;
    bool all = true, dead = false;
    for (const MemberId id : w.connecting->members) {
      const Worker* other = worker(id);
      if (!other->alive || other->gone_by_itself) dead = true;
      const bool there = (other->connecting && other->connecting->number == w.newest) ||
                         (other->next && other->next->number == w.newest) ||
                         (other->in && other->in->number == w.newest);
      all = all && there && !other->stopped;
    }
    if (dead && chance(0.2)) {
      tell(w, Message::lost, w.connecting->number, true);
      w.connecting.reset();
    } else if (all && !dead && chance(0.5)) {
      w.next = w.connecting;
      w.connecting.reset();
      tell(w, Message::connected, w.next->number);
    }
  }
}

void World::train() {
  std::map<uint64_t, Generation> at_work;
  for (const Worker& w : workers_) {
    if (w.alive && w.in && w.working) at_work[w.in->number] = *w.in;
  }
  int stepping = 0;
  for (const auto& [number, generation] : at_work) {
    bool complete = true;
    for (const MemberId id : generation.members) {
      const Worker* w = worker(id);
      complete = complete && w->alive && !w->stopped && !w->gone_by_itself && w->in &&
                 w->in->number == number && w->working;
    }
    if (!complete || broken_links_.count(number)) continue;
    const int64_t before = step_;
    step(generation);
    stepping += step_ > before;
    if (stepping > 1) complain("two generations train at once");
  }
}

// First all come to have the same state; then steps, and a switch when all can.
void World::step(const Generation& generation) {
  std::vector<Worker*> members;
  for (const MemberId id : generation.members) members.push_back(worker(id));
  const bool synced =
      std::all_of(members.begin(), members.end(), [](auto* w) { return w->synced; });
  if (!synced) {
    int64_t state = -1;
    for (const Worker* w : members) {
      if (w->trained) state = std::max(state, w->applied);
    }
    if (state < 0) {
      if (step_ > 0) ++restarts_;
      step_ = state = checkpoint_;
    }
    if (state != step_) complain(fmt::format("step {} was lost", step_));
    for (Worker* w : members) {
      w->synced = w->trained = true;
      w->applied = state;
      tell(*w, Message::switched, generation.number);
    }
    last_step_ = now_;
    return;
  }
  if (!chance(0.3)) return;
  if (generation.number < step_generation_) complain("a step in an older generation");
  step_generation_ = generation.number;
  ++step_;
  last_step_ = now_;
  if (step_ % 20 == 0) checkpoint_ = step_;
  step_finished(view_, now_);
  uint64_t offered = members.front()->next ? members.front()->next->number : 0;
  bool asked = true;
  for (Worker* w : members) {
    w->applied = step_;
    if (!w->next || w->next->number != offered) offered = 0;
    asked = asked && w->checkpoint_asked;
  }
  if (asked) {
    checkpoint_ = step_;
    for (Worker* w : members) leave(*w);
    return;
  }
  if (offered == 0) return;
  for (Worker* w : members) {
    if (holds(*w->next, w->id)) {
      enter(*w, *w->next);
    } else {
      leave(*w);
    }
  }
}

void World::hear(MemberId id, const Message& message) {
  switch (message.kind) {
    case Message::hello:
      return launch::said_hello(view_, id, now_);
    case Message::connected:
      return said_connected(view_, id, message.generation);
    case Message::switched:
      return said_switched(view_, id, message.generation, now_);
    case Message::lost:
      return said_lost(view_, id, message.generation, message.connecting, now_);
    case Message::leaving:
      calm_since_ = now_;
      return said_leaving(view_, id, now_);
    case Message::bye:
      return said_bye(view_, id, false, now_);
  }
}

void World::launcher() {
  for (Worker& w : workers_) {
    while (!w.outbox.empty() && w.outbox.front().at <= now_) {
      const Message message = w.outbox.front();
      w.outbox.pop_front();
      hear(w.id, message);
    }
    if (now_ >= w.death_seen_at && !w.death_told) {
      w.death_told = true;
      died(view_, w.id, now_);
    }
    if (now_ >= w.reap_at) reaped(view_, w.id);
  }
  decide_all();
}

void World::check_announcement(const Decision& decision) {
  const Generation& next = decision.generation;
  if (generations_.count(next.number) ||
      (!generations_.empty() && next.number < generations_.rbegin()->first)) {
    complain(fmt::format("generation {} is not new", next.number));
  }
  const int size = static_cast<int>(next.members.size());
  const auto carriers = std::count_if(next.members.begin(), next.members.end(), [&](MemberId id) {
    return view_.find(id) != nullptr && displaced(id);
  });
  const bool survivors = next.immediate && next.members.size() <= view_.current.members.size();
  if (size < 1 || (size > options_.max + (carriers == 1) && !survivors)) {
    complain(fmt::format("{} members", size));
  }
  int with_state = 0, old = 0;
  for (const MemberId id : next.members) {
    const Member* member = view_.find(id);
    if (member == nullptr || member->state == MemberState::starting ||
        member->state == MemberState::gone || member->said_bye) {
      complain(fmt::format("replica {} cannot be a member", id));
      return;
    }
    with_state += member->state == MemberState::active;
    old += holds(view_.current, id);
  }
  if (next.immediate && with_state != 0 && with_state != size) {
    complain("an immediate generation with newcomers");
  }
  if (!next.immediate && with_state == 0) complain("a planned generation without state");
  if (next.immediate && with_state == 0 && size < options_.min) complain("formed below the bounds");
  generations_[next.number] = next;
}

// Spares are no more than wanted, nor started while others lack, and one that is ready does not
// wait while a replica is missing.
void World::check_spares(const Decision& decision) {
  const bool trains = view_.current.number != 0 && !view_.pending && !view_.broken &&
                      !view_.handing_over && !view_.finishing;
  if (!trains || options_.spares == 0) return;
  int settled = 0, staying = 0, coming = 0, ready = 0;
  for (const Member& member : view_.members) {
    if (member.died) return;  // it may still be unknown how
    if (member.state == MemberState::gone || member.said_bye || member.leaving) continue;
    const bool member_of = holds(view_.current, member.id);
    staying += member_of;
    settled += member_of && !displaced(member.id);
    coming += !member_of && member.state != MemberState::active;
    ready +=
        view_.is_spare(member) && !displaced(member.id) && now_ - member.since > milliseconds(600);
  }
  const int lack = std::max(0, view_.target - settled);
  if (decision.action == Action::start) {
    const int most = lack > 0 ? lack : options_.spares;
    if (coming + decision.count > most) complain("more newcomers than wanted");
  }
  if (decision.action == Action::wait && ready > 0 && lack > 0 && staying > 0 &&
      now_ >= view_.retry_at && view_.failed_newcomers <= options_.max_restarts) {
    complain("a spare waits while a replica is missing");
  }
}

// The slots of the i-th newcomer, which have to be free.
std::vector<int> World::take_slots(const Decision& decision, int i) {
  if (options_.slots.empty()) return {};
  const auto each = static_cast<size_t>(options_.slots_per_replica);
  if (decision.slots.size() != each * static_cast<size_t>(decision.count))
    complain("missing slots");
  const auto first = decision.slots.begin() + static_cast<long>(each) * i;
  std::vector<int> slots(first, first + static_cast<long>(each));
  for (const int slot : slots) {
    if (std::count(options_.slots.begin(), options_.slots.end(), slot) == 0) {
      complain(fmt::format("slot {} is not the run's", slot));
    }
    for (const Worker& w : workers_) {
      const bool there = w.alive || now_ < w.reap_at;
      if (there && std::count(w.slots.begin(), w.slots.end(), slot)) {
        complain(fmt::format("slot {} is {}'s", slot, w.id));
      }
    }
  }
  return slots;
}

void World::decide_all() {
  for (int rounds = 0;; ++rounds) {
    const Decision decision = decide(now_, view_, options_);
    reason_ = decision.reason;
    if (decision.reason.empty()) complain("a decision without a reason");
    if (rounds > 50) {
      complain("decides for ever");
      gave_up_ = true;
    }
    if (decision.action == Action::wait && decision.deadline && *decision.deadline <= now_) {
      complain("waits for the past");
    }
    if (decision.action == Action::give_up) gave_up_ = true;
    check_spares(decision);
    if (gave_up_ || decision.action == Action::wait) return;
    if (decision.action == Action::announce) {
      check_announcement(decision);
      for (Worker& w : workers_) {
        const bool told = holds(decision.generation, w.id) ||
                          std::count(decision.leavers.begin(), decision.leavers.end(), w.id);
        if (!told) continue;
        TimePoint at = soon(30);
        if (!w.inbox.empty()) at = std::max(at, w.inbox.back().at);
        w.inbox.push_back({at, decision.generation});
      }
      if (decision.generation.immediate) calm_since_ = now_;
    } else if (decision.action == Action::start) {
      for (int i = 0; i < decision.count; ++i) {
        Worker fresh;
        fresh.id = next_id_++;
        fresh.hello_at = now_ + milliseconds(200) + (soon(400) - now_);
        fresh.slots = take_slots(decision, i);
        started(view_, fresh.id, now_, fresh.slots);
        workers_.push_back(fresh);
      }
    } else if (decision.action == Action::dismiss) {
      for (const MemberId id : decision.dismissed) {
        Worker* w = worker(id);
        if (w->in && holds(view_.current, id) && w->trained && !w->gone_by_itself &&
            !view_.handing_over) {
          complain(fmt::format("dismissed {}, who trains", id));
        }
        kill(*w);
      }
    } else if (decision.action == Action::hand_over) {
      for (const MemberId id : view_.current.members) {
        worker(id)->inbox.push_back({soon(30), {}, true});
      }
      calm_since_ = now_;
    } else if (decision.action == Action::restart) {
      calm_since_ = now_;
    }
    apply(view_, decision, now_);
  }
}

bool World::settled() const {
  if (view_.pending || view_.broken || view_.current.number == 0) return false;
  if (static_cast<int>(view_.current.members.size()) != view_.target) return false;
  size_t members = 0, spares = 0;
  for (const Worker& w : workers_) {
    if (!w.alive) continue;
    if (displaced(w.id)) return false;
    const Member* member = view_.find(w.id);
    if (member != nullptr && view_.is_spare(*member)) {
      ++spares;
    } else if (w.in && w.in->number == view_.current.number && w.synced) {
      ++members;
    } else {
      return false;
    }
  }
  const size_t slots = options_.slots.size() / static_cast<size_t>(options_.slots_per_replica);
  const auto wanted = static_cast<size_t>(options_.spares);
  return members == view_.current.members.size() &&
         spares == (slots == 0 ? wanted : std::min(wanted, slots - members));
}

void World::play(int ticks, const Accidents& accidents) {
  for (int tick = 0; tick < ticks && !gave_up_ && complaints_.empty(); ++tick) {
    now_ += milliseconds(10);
    have_accidents(accidents);
    const size_t before = workers_.size();
    for (Worker& w : workers_) work(w);
    connect_links();
    train();
    launcher();
    for (size_t i = before; i < workers_.size(); ++i) {
      if (!chance(accidents.bad_start)) continue;
      if (chance(0.5)) {
        workers_[i].die_at = soon(700);
      } else {
        workers_[i].never_hello = true;
      }
    }
    bool stopped = false;
    for (const Worker& w : workers_) stopped = stopped || (w.alive && w.stopped);
    if (stopped) calm_since_ = now_;
    // Whatever newcomers do, those who train must not be held up by it.
    const bool trains = view_.current.number != 0 && !view_.handing_over;
    if (trains && now_ - calm_since_ > milliseconds(1500) &&
        now_ - last_step_ > milliseconds(1500)) {
      complain("nobody trains, and nothing explains it");
    }
  }
}

}  // namespace adaptdl::launch::testing
