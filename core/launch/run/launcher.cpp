#include "core/launch/run/launcher.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/poll.h"
#include "core/launch/hosts/host_slots.h"
#include "core/launch/slots.h"

namespace adaptdl::launch {

namespace {

constexpr int kTerminated = static_cast<int>(ExitCode::terminated);

RendezvousOptions rendezvous_options(const RunOptions& options) {
  RendezvousOptions result;
  result.min = options.replicas.min;
  result.max = options.replicas.max;
  result.slots = options.slots;
  result.needs_slots = options.hosts.has_value();
  result.slots_per_replica = options.slots_per_replica;
  result.spares = options.spares;
  result.max_restarts = options.max_restarts;
  result.start_timeout = Seconds(options.start_timeout_s);
  result.connect_timeout = Seconds(options.connect_timeout_s);
  result.exit_settle = Seconds(options.exit_settle_s);
  result.leave_timeout = Seconds(options.grace_s);
  return result;
}

int64_t milliseconds_since_1970() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
}

const char* state_name(const Member& member, bool spare) {
  static constexpr const char* kStates[] = {"starting", "ready", "active", "gone"};
  if (member.leaving) return "leaving";
  if (spare && !member.stopped) return "spare";
  return member.stopped ? "stopped" : kStates[static_cast<int>(member.state)];
}

}  // namespace

Launcher::Launcher(const RunOptions& options, RunReport& report, SignalCatcher& signals,
                   CheckpointMirror* mirror)
    : options_(options),
      report_(report),
      signals_(signals),
      mirror_(mirror),
      mirror_report_(mirror, report),
      rendezvous_(rendezvous_options(options)),
      stream_(report, options.succeeds.has_value(), [this](int64_t step) { on_step(step); }),
      replicas_(options, report, host_events()),
      hosts_(options, view_, rendezvous_, replicas_, report),
      takeover_(options, view_, replicas_, stream_, report),
      hand_over_(options, replicas_),
      hung_(options.hang_timeout_s, !options.evaluate, options.log_dir, report),
      stragglers_(options.replace_stragglers, {view_, rendezvous_, replicas_, report}),
      slow_links_(view_, replicas_, report),
      failures_(options.max_restarts, options.system_root, view_, replicas_, report),
      end_(options, view_, replicas_, stream_, report),
      conversation_(options, {view_, replicas_, stream_, hung_, stragglers_, slow_links_, failures_,
                              end_, report, mirror}),
      control_(options.control_socket,
               [this](const auto& request) { return answer_request(*this, request); }) {
  if (options.fresh) fresh_at_ = milliseconds_since_1970();
  view_.target = options.replicas.initial;
  view_.forming_since = Monotonic::now();
}

int Launcher::run() {
  record("starting");
  const ReplicaBounds& bounds = options_.replicas;
  report_.start({.run_id = replicas_.run_id(),
                 .replicas = bounds.initial,
                 .min = bounds.min,
                 .max = bounds.max,
                 .threads = replicas_.threads_for(bounds.initial),
                 .gpus = options_.gpus,
                 .evaluate = options_.evaluate});
  if (const auto slots = static_cast<int>(options_.slots.size());
      options_.gpus > 0 && slots > options_.gpus) {
    report_.talk(fmt::format(
        "up to {} replicas{} share {} here, and its memory; fewer replicas with larger batches are "
        "faster as a rule",
        slots, options_.spares > 0 ? " and spares" : "",
        options_.gpus == 1 ? "the GPU" : fmt::format("the {} GPUs", options_.gpus)));
  }
  decide_all();
  while (!end_.ending() || !replicas_.empty()) {
    wait();
    replicas_.serve_hosts();
    const bool children = take_signals();
    replicas_.take_stops(conversation_, children);
    replicas_.take_messages(conversation_);
    if (replicas_.take_ends(conversation_, children)) {
      replicas_.take_messages(conversation_);  // reporting an end takes a while
    }
    control_.serve();
    decide_all();
    stream_.advance(view_);
    stragglers_.check();
    slow_links_.check();
    if (view_.formed && report_.state() == "starting") record("training");
    if (!end_.ending() && !takeover_.gathers() && !waits_for_hosts()) {
      hung_.check(view_, replicas_, stream_.last_step());
    }
    end_.check();
    mirror_report_.tell();
    if (!takeover_.gathers()) hosts_.confirm_events(stream_);
    if (hands_over()) return kTerminated;
  }
  // Who ends the run at once, or again, does not wait.
  const bool stopped = end_.is("stopped") || end_.is("cancelled");
  if (!stopped || end_.ending()->checkpoint) mirror_report_.wait_for_last(signals_, control_);
  return finish();
}

void Launcher::wait() {
  std::vector<pollfd> waits{{signals_.fd(), POLLIN, 0}};
  control_.add_waits(waits);
  replicas_.add_waits(waits);
  if (mirror_ != nullptr) waits.push_back({mirror_->fd(), POLLIN, 0});
  TimePoint until =
      std::min({deadline_.value_or(TimePoint::max()), control_.deadline(), replicas_.deadline(),
                end_.deadline(), hosts_.deadline(end_.members_matter())});
  if (hung_.counting()) {
    const auto look = std::chrono::duration_cast<Monotonic::duration>(HangWatch::kLook);
    until = std::min(until, Monotonic::now() + look);
  }
  poll_until(waits, until);
}

bool Launcher::take_signals() {
  bool children = false;
  for (const int number : signals_.take()) {
    if (number == SIGCHLD) {
      children = true;
      continue;
    }
    if (stopped_at_ && is_repeated(number, *stopped_at_)) continue;
    if (takeover_.gathers() && !told_to_stop_) {
      told_to_stop_ = number;  // it knows of no replicas yet
      stopped_at_ = Monotonic::now();
    } else if (!end_.ending()) {
      stopped_at_ = Monotonic::now();
      stop(number);
    } else if (end_.in_main()) {
      end_main("stopped", 128 + number);
    } else if (!end_.is("finished")) {
      end_.at_once();  // the second signal
    }
  }
  return children;
}

void Launcher::stop(int signal) {
  if (hand_over_.possible()) return begin_to_hand_over();
  const bool saves = !options_.evaluate;
  end_.begin({.result = "stopped", .exit = 128 + signal, .repair = saves, .checkpoint = saves});
}

void Launcher::decide_all() {
  const bool gathered = takeover_.gathers();
  deadline_ = takeover_.wait_for_hosts();
  if (deadline_) return;
  if (gathered) {
    hosts_.use_slots(view_.newest());
  }
  if (told_to_stop_) stop(*std::exchange(told_to_stop_, {}));
  if (end_.members_matter()) hosts_.part_cut();
  if (view_.finished && !end_.is("finished")) end_.begin({.result = "finished", .exit = 0});
  while (end_.members_matter() && !waits_for_hosts()) {
    const Decision decision = decide(Monotonic::now(), view_, rendezvous_);
    reason_ = decision.reason;
    if (decision.action == Action::wait) {
      deadline_ = decision.deadline;
      return;
    }
    carry_out(decision);
    apply(view_, decision, Monotonic::now());
  }
}

void Launcher::carry_out(const Decision& decision) {
  switch (decision.action) {
    case Action::wait:
      break;
    case Action::start:
      start_replicas(decision);
      break;
    case Action::announce:
      replicas_.announce(decision.generation, decision.leavers, failures_.atomic_limit());
      break;
    case Action::dismiss:
      dismiss(decision);
      break;
    case Action::hand_over:
      hand_over(decision);
      break;
    case Action::restart:
      if (view_.formed) {
        report_.talk(decision.reason + "; restarting from the newest checkpoint");
      }
      stream_.restarting(view_);
      // One that takes the training for finished waits for nobody.
      for (const auto& [id, replica] : replicas_.all()) {
        if (replica->in_main) replicas_.kill(*replica);
      }
      conversation_.went_on();
      hung_.restarting();
      break;
    case Action::give_up:
      give_up(decision.reason);
      break;
  }
}

void Launcher::start_replicas(const Decision& decision) {
  const Joining joining{
      .replicas = view_.target, .atomic_limit = failures_.atomic_limit(), .fresh_at = fresh_at_};
  for (int i = 0; i < decision.count; ++i) {
    const MemberId id = replicas_.new_id();
    const std::vector<int> slots = slots_of(decision.slots, i, options_.slots_per_replica);
    started(view_, id, Monotonic::now(), slots);
    try {
      replicas_.start(id, slots, joining);
    } catch (const Error& error) {
      died(view_, id, Monotonic::now());
      failures_.no_start(id, error.what());
      reaped(view_, id);
      return;
    }
  }
}

void Launcher::dismiss(const Decision& decision) {
  for (const MemberId id : decision.dismissed) {
    Replica* replica = replicas_.find(id);
    if (replica == nullptr) continue;
    if (decision.failure) failures_.add(id, decision.reason, view_.find(id)->state);
    replicas_.kill(*replica);
  }
}

void Launcher::hand_over(const Decision& decision) {
  report_.talk(decision.reason + "; handing over through a checkpoint");
  for (const MemberId id : view_.current.members) {
    Replica* replica = replicas_.find(id);
    if (replica != nullptr) replicas_.ask_to_stop(*replica, kTerminated);
  }
}

void Launcher::give_up(const std::string& reason) {
  const std::string& last = failures_.last();
  end_.begin({.result = "failed",
              .exit = 1,
              .reason = last.empty() ? reason : fmt::format("{}; {}", last, reason),
              .repair = !options_.evaluate,
              .checkpoint = !options_.evaluate,
              .last_words = true});
}

void Launcher::on_step(int64_t step) {
  step_finished(view_, Monotonic::now());
  if (const auto& took = stream_.newest("step_s"); took.is_number()) {
    hung_.watch().step_took(Seconds(took.get<double>()));
  }
  const auto& wanted = options_.replicas_at;
  for (; next_replicas_at_ < wanted.size() && step >= wanted[next_replicas_at_].first;
       ++next_replicas_at_) {
    hosts_.ask_for(wanted[next_replicas_at_].second, "replicas-at");
  }
}

AgentServer::Events Launcher::host_events() {
  auto events = slot_events(rendezvous_.slots, report_, [this] { host_slots_changed(); });
  events.left = [this, left = std::move(events.left)](const AgentServer::Slots& slots,
                                                      const std::string& host,
                                                      const std::string& why) {
    hosts_.left(slots);
    left(slots, host, why);
  };
  if (!options_.succeeds) return events;
  events.kept = [this](std::unique_ptr<Replica> replica, const nlohmann::json& told) {
    takeover_.kept(std::move(replica), told);
  };
  return events;
}

void Launcher::host_slots_changed() {
  if (!end_.ending()) hosts_.use_slots();
}

bool Launcher::waits_for_hosts() {
  const auto until = end_.ending() ? std::nullopt : hosts_.lacks(reason_);
  if (until) deadline_ = until;
  return until || hosts_.waits(reason_);
}

void Launcher::begin_to_hand_over() {
  report_.talk("this host was told to stop; its replicas leave, and another host is to lead");
  hand_over_.begin();
  std::erase_if(rendezvous_.slots, [this](int slot) { return slot < options_.hosts->slots; });
  host_slots_changed();
}

// Whether this launcher is to end, and another one leads.
bool Launcher::hands_over() {
  if (end_.ending()) return false;
  switch (hand_over_.next(rendezvous_.slots, deadline_)) {
    case HandOver::Next::go_on:
      return false;
    case HandOver::Next::stop:
      end_.begin({.result = "stopped", .exit = kTerminated, .repair = true, .checkpoint = true});
      return false;
    case HandOver::Next::leave:
      report_.talk("leaves the run to the other hosts");
      hosts_.hand_over(stream_);
      return true;
  }
  return false;
}

nlohmann::json Launcher::status() const {
  StatusFacts facts;
  for (const auto& [id, replica] : replicas_.all()) {
    const Member* member = view_.find(id);
    if (member == nullptr) continue;
    const bool spare = options_.spares > 0 && view_.is_spare(*member);
    if (spare) ++facts.spares;
    facts.members.push_back(
        {id, replica->process->pid(), replica->in_main ? "finished" : state_name(*member, spare)});
  }
  facts.stragglers = stragglers_.facts();
  facts.slow_links = slow_links_.facts();
  facts.reason = end_.ending() ? end_.ending()->result : reason_;
  facts.generation = static_cast<int64_t>(view_.current.number);
  facts.replicas = static_cast<size_t>(view_.trained());
  facts.target = view_.target;
  facts.min = rendezvous_.min;
  facts.max = rendezvous_.max;
  facts.finished = end_.in_main();
  if (facts.finished) {
    facts.replicas = replicas_.in_main();
    facts.target = static_cast<int>(facts.replicas);
  }
  if (!options_.slots.empty()) facts.slots = replicas_.held_slots();
  facts.hints = conversation_.hints();
  facts.step = stream_.last_step();
  facts.epoch = stream_.newest("epoch");
  facts.loss = stream_.newest("loss");
  return report_.status(facts);
}

std::string Launcher::ending() const {
  if (end_.in_main()) return "";
  return end_.ending() ? end_.ending()->result : "";
}

RunSlots Launcher::slots() const {
  return {!options_.slots.empty(), rendezvous_.slots, options_.slots_per_replica, options_.gpus};
}

int Launcher::scale(const ScaleRequest& request) {
  if (end_.in_main()) fail("its training is finished");
  const int before = view_.target;
  if (options_.hosts) replicas_.agents().give_up_lost();
  if (request.slots) rendezvous_.slots = *request.slots;
  hosts_.ask_for(request.replicas, "scale");
  return before;
}

bool Launcher::cancel(bool checkpoint) {
  if (end_.in_main()) {
    end_main("cancelled", kTerminated);
    return false;
  }
  end_.begin(
      {.result = "cancelled", .exit = kTerminated, .repair = checkpoint, .checkpoint = checkpoint});
  return checkpoint;
}

void Launcher::end_main(const char* result, int exit) {
  end_.main_ended(result, exit, "the program was ended after its training");
  end_.at_once();
}

void Launcher::record(const std::string& state) {
  report_.record(state, {.step = stream_.last_step()});
}

int Launcher::finish() {
  const Ending& ending = end_.outcome();
  replicas_.end_hosts(ending.exit);
  stream_.advance(view_, true);
  std::string reason = ending.reason;
  if (ending.last_words && !failures_.last_words().empty()) {
    reason += fmt::format(". The last log lines of the replica that failed last:\n  {}",
                          fmt::join(failures_.last_words(), "\n  "));
  }
  if (!reason.empty()) report_.talk(reason);
  const bool stopped = end_.is("stopped") || end_.is("cancelled");
  if (stopped && !conversation_.checkpointed() && !options_.evaluate) {
    report_.talk(
        "stopped without a final checkpoint; the same command continues from the newest one");
  }
  EndFacts facts;
  facts.result = ending.result;
  facts.exit = ending.exit;
  facts.reason = reason;
  facts.cause = failures_.cause();
  facts.checkpoint = conversation_.checkpointed();
  facts.steps = stream_.last_step();
  facts.rescales = stream_.rescales();
  facts.lost_s = stream_.lost_s();
  if (stream_.worker_end().is_object()) facts.from_replicas = stream_.worker_end();
  if (ending.result == "finished") facts.reason = facts.from_replicas.value("reason", "");
  facts.from_replicas.update(conversation_.summary());
  facts.record = {.step = stream_.last_step()};
  report_.end(facts);
  return ending.exit;
}

}  // namespace adaptdl::launch
