#include "core/launch/command/command_launcher.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/poll.h"
#include "core/base/process.h"
#include "core/job/worker_environment.h"
#include "core/launch/hosts/host_slots.h"
#include "core/launch/run/run.h"
#include "core/launch/slots.h"

namespace adaptdl::launch {

namespace {

constexpr int kNotExecutable = 126;  // as shells

CommandRules rules_of(const CommandOptions& options) {
  CommandRules rules;
  rules.slots_per_replica = options.slots_per_replica;
  rules.max_failures = options.max_failures;
  rules.in_row = options.failures_in_row;
  if (!rules.in_row) rules.backoff = Seconds(0);  // a limit of all failures ends a loop of them
  rules.grace = Seconds(options.grace_s);
  rules.failed_grace = std::min(rules.failed_grace, rules.grace);
  return rules;
}

}  // namespace

CommandLauncher::CommandLauncher(const CommandOptions& options, RunReport& report,
                                 SignalCatcher& signals, ReplicaConsole* console)
    : options_(options),
      report_(report),
      signals_(signals),
      rules_(rules_of(options)),
      control_(options.control_socket,
               [this](const auto& request) { return answer_request(*this, request); }),
      replicas_(options_, report, console, host_events()) {
  make_directories(options.checkpoint_dir, 0700);
  make_directories(options.share_dir, 0700);
  start_fresh(options);
  view_.target = options.replicas.initial;
  view_.slots = options.slots;
  for (int slot = 0; options.hosts && slot < options.hosts->slots; ++slot) {
    view_.slots.push_back(slot);
  }
  view_.supervisor_up = options.supervisor_url.empty();
}

int CommandLauncher::run() {
  report_.record("starting", facts());
  const ReplicaBounds& bounds = options_.replicas;
  report_.start({.replicas = bounds.initial,
                 .min = bounds.min,
                 .max = bounds.max,
                 .threads = replicas_.threads_for(bounds.initial),
                 .gpus = options_.gpus});
  decide_all();
  while (!exit_) {
    wait();
    take_signals();
    replicas_.serve_hosts();
    take_ends();
    control_.serve();
    decide_all();
  }
  replicas_.end_hosts(*exit_);
  return *exit_;
}

void CommandLauncher::wait() {
  std::vector<pollfd> waits{{signals_.fd(), POLLIN, 0}};
  control_.add_waits(waits);
  replicas_.add_waits(waits);
  poll_until(waits, std::min({deadline_.value_or(TimePoint::max()), control_.deadline(),
                              replicas_.deadline()}));
}

void CommandLauncher::take_signals() {
  for (const int number : signals_.take()) {
    if (number == SIGCHLD) {
      child_signal_ = true;
      continue;
    }
    if (view_.stop != CommandStop::none) {
      if (!is_repeated(number, stopped_at_)) view_.stop = CommandStop::now;
      continue;
    }
    view_.stop = CommandStop::checkpoint;
    stopped_at_ = Monotonic::now();
    stop_exit_ = 128 + number;
    if (number == SIGINT) stop_signal_ = SIGINT;
  }
}

void CommandLauncher::take_ends() {
  for (EndedReplica& replica : replicas_.take_ends()) {
    exited(view_, replica.rank, replica.status, Monotonic::now());
    ended_.push_back(std::move(replica));
  }
  if (std::exchange(child_signal_, false)) replicas_.reap_orphans();
  if (!view_.replicas.empty() && view_.living() == 0) on_generation_end();
}

void CommandLauncher::on_generation_end() {
  const TimePoint now = Monotonic::now();
  const bool progress = newest_checkpoint() > checkpoint_before_;
  replicas_.show_rest();
  const auto lost = std::ranges::find_if(ended_, &EndedReplica::host_lost);
  if (lost != ended_.end()) {
    restart_without(*lost);
  } else if (view_.failed_at &&
             // If an unknown sender asked it to end, it is a failure only without a checkpoint.
             (!view_.asked_outside || (!progress && view_.stop == CommandStop::none))) {
    const auto refused = [&](const EndedReplica& one) {
      return view_.stop == CommandStop::none && replicas_.needs_pickles(one);
    };
    const auto found = std::find_if(ended_.begin(), ended_.end(), refused);
    if (found != ended_.end()) {
      load_pickles(*found);
    } else {
      add_failure(forgives(view_, progress, now, rules_));
    }
  }
  ended_.clear();
  checkpointed_ = progress;
  before_ = static_cast<int>(view_.replicas.size());
  replicas_.generation_ended(can_restart(view_));
  if (finished_when_asked(view_)) {
    finish_reason_ = fmt::format(
        "{} exited with 0 when asked to restart ({}): taken for finished; save and exit with "
        "143 to be restarted",
        view_.replicas.size() == 1 ? "the replica" : "all replicas", asked_);
  }
  generation_ended(view_, progress, now, rules_);
  view_.supervisor_up = options_.supervisor_url.empty();
}

void CommandLauncher::decide_all() {
  while (!exit_ && !waits_for_hosts()) {
    if (view_.replicas.empty() && !view_.supervisor_up) {
      view_.supervisor_up = answers(options_.supervisor_url);
    }
    const CommandDecision decision = decide(Monotonic::now(), view_, rules_);
    reason_ = decision.reason;
    deadline_ = decision.deadline;
    if (decision.action == CommandAction::wait) {
      if (!view_.supervisor_up && told_reason_ != reason_) {
        report_.talk(fmt::format("{} at {}", reason_, options_.supervisor_url));
      }
      told_reason_ = reason_;
      return;
    }
    apply(view_, decision, Monotonic::now());
    carry_out(decision);
  }
}

AgentServer::Events CommandLauncher::host_events() {
  auto events = slot_events(view_.slots, report_, [this] { set_host_slots(); });
  events.joined = [this, joined = std::move(events.joined)](const AgentServer::Slots& slots,
                                                            const std::string& host) {
    host_came(view_, replicas_.hosts() >= options_.hosts->most, Monotonic::now());
    joined(slots, host);
  };
  return events;
}

// A replica for each slot while it exists, unless somebody has asked for fewer.
void CommandLauncher::set_host_slots() {
  const int slots = static_cast<int>(view_.slots.size());
  const int target = std::min(slots, asked_for_.value_or(slots));
  if (target != view_.target) cause_ = "hosts";
  view_.target = target;
}

// Before its first start a run waits for as many hosts as it needs.
bool CommandLauncher::waits_for_hosts() {
  if (!options_.hosts || starts_ > 0 || view_.stop != CommandStop::none) return false;
  return launch::waits_for_hosts(replicas_.hosts(), options_.hosts->least, replicas_.hosts_port(),
                                 reason_, report_);
}

void CommandLauncher::carry_out(const CommandDecision& decision) {
  const std::string& failure = failure_.sentence;
  switch (decision.action) {
    case CommandAction::wait:
      break;
    case CommandAction::start:
      start(decision);
      break;
    case CommandAction::terminate:
      terminate(decision.reason);
      break;
    case CommandAction::kill:
      report_.talk(decision.reason + "; killing the remaining processes");
      replicas_.signal_all(SIGKILL);
      break;
    case CommandAction::finish:
      end("finished", 0, finish_reason_);
      break;
    case CommandAction::stopped:
      end(cancelled_ ? "cancelled" : "stopped", stop_exit_, "");
      break;
    case CommandAction::give_up:
      // If no failure is allowed, their number says nothing.
      end("failed", 1,
          options_.max_failures == 0 && !failure.empty()
              ? failure
              : decision.reason + (failure.empty() ? "" : ". " + failure));
      break;
  }
}

void CommandLauncher::terminate(const std::string& reason) {
  const bool interrupted = view_.stop == CommandStop::checkpoint && stop_signal_ == SIGINT;
  report_.talk(
      fmt::format("{}; {} to all replicas", reason, interrupted ? "Ctrl-C goes on" : "SIGTERM"));
  asked_ = reason;
  replicas_.signal_all(interrupted ? SIGINT : SIGTERM);
}

void CommandLauncher::start(const CommandDecision& decision) {
  try {
    checkpoint_before_ = newest_checkpoint();
    // The program names its checkpoint by the generation's number, which must not exist yet.
    replicas_.start(decision.count, decision.slots, checkpoint_before_, failed_);
  } catch (const DiskFull& error) {
    // A run that was well waits until there is room.
    if (starts_ == 0 && options_.throws_disk_full) throw;
    if (starts_ == 0) return cannot_start(error.what(), std::nullopt);
    if (!view_.disk_full) report_.talk(fmt::format("{}; waiting for room", error.what()));
    start_failed(view_, Monotonic::now(), rules_);
    return;
  } catch (const CannotExecute& error) {
    cannot_start(error.what(), kNotExecutable);
    return;
  } catch (const Error& error) {
    cannot_start(error.what(), std::nullopt);
    return;
  }
  ++starts_;
  view_.disk_full = false;
  const std::vector<int> ranks = replicas_.ranks();
  report_.generation({.number = replicas_.generation(),
                      .members = {ranks.begin(), ranks.end()},
                      .from = before_,
                      .cause = starts_ == 1                ? "start"
                               : failure_.sentence.empty() ? cause_
                                                           : "restart",
                      .immediate = true});
  failure_.sentence.clear();
  report_.record("running", facts());
}

// Another attempt would not help. `program_exit`: what a shell would exit with.
void CommandLauncher::cannot_start(const std::string& reason, std::optional<int> program_exit) {
  view_.replicas.clear();
  failure_.cause = "CannotStart";
  failure_.exit_code = options_.program_exit ? program_exit : std::nullopt;
  end("failed", 1, reason);
}

// The others may have failed because of it. It does not count: the next start has fewer hosts.
void CommandLauncher::restart_without(const EndedReplica& lost) {
  report_.failure({.member = static_cast<MemberId>(lost.rank),
                   .reason = lost.lost,
                   .status = std::nullopt,
                   .next = view_.stop != CommandStop::none
                               ? "the run is stopping"
                               : "all replicas restart from what they have saved",
                   .log = {}});
  view_.failed_at.reset();
}

// The next start mends it, so it does not count as a failure.
void CommandLauncher::load_pickles(const EndedReplica& refused) {
  replicas_.load_pickles();
  failure_.sentence = "torch.load refused AdaptDL's own checkpoint";
  report_.failure({.member = static_cast<MemberId>(refused.rank),
                   .reason = refused.status.describe() + ": " + failure_.sentence,
                   .status = refused.status,
                   .next = fmt::format("all replicas restart with {}=1", kLoadPicklesVariable),
                   .log = {}});
  view_.failed_at.reset();
}

void CommandLauncher::add_failure(bool forgiven) {
  ++failed_;
  for (EndedReplica& replica : ended_) {
    replicas_.explain(replica);
  }
  const int index = first_failure(ended_);
  // Nobody failed by itself: one failed when it was asked to end.
  const auto found = index >= 0 ? ended_.begin() + index
                                : std::find_if(ended_.begin(), ended_.end(), [&](const auto& one) {
                                    return one.rank == view_.failed_rank;
                                  });
  ADAPTDL_CHECK(found != ended_.end());
  const EndedReplica& first = *found;
  const bool explained = first.error && !first.error->message.empty();
  std::string reason = first.out_of_memory   ? "killed: memory ran out"
                       : !first.lost.empty() ? first.lost
                                             : first.status.describe();
  const std::string place = first.host.empty() ? "" : " on host " + first.host;
  if (!place.empty()) reason += place;
  if (explained) reason += ": " + first.error->message;
  const bool traced = first.error && !first.error->traceback.empty();
  const std::vector<std::string>& lines = traced ? first.error->traceback : first.log;
  const bool again = (forgiven ? 0 : view_.failures) < options_.max_failures;
  report_.failure({.member = static_cast<MemberId>(first.rank),
                   .reason = reason,
                   .status = first.status,
                   .next = view_.stop != CommandStop::none ? "the run is stopping"
                           : again ? "all replicas restart from what they have saved"
                                   : "",
                   .log = lines});
  failure_.cause = first.out_of_memory ? "OutOfMemory" : "ReplicaFailed";
  failure_.exit_code = first.status.shell_code();
  failure_.sentence =
      fmt::format("Replica {}{}: {}", first.rank, ended_.size() > 1 ? " failed first" : "", reason);
  std::vector<std::string> others;
  for (const EndedReplica& other : ended_) {
    if (&other == &first || !other.failed()) continue;
    others.push_back(fmt::format("replica {}: {}", other.rank, other.status.describe()));
  }
  if (!others.empty()) {
    failure_.sentence += fmt::format("; then {}", fmt::join(others, ", "));
  }
  if (!lines.empty()) {
    failure_.sentence += fmt::format(". Its last {}:\n  {}", traced ? "calls" : "log lines",
                                     fmt::join(lines, "\n  "));
  }
}

void CommandLauncher::end(const std::string& result, int exit, const std::string& reason) {
  exit_ = exit;
  if (options_.program_exit && result == "failed") exit_ = failure_.exit_code.value_or(exit);
  if (!reason.empty()) report_.talk(reason);
  report_.end({.result = result,
               .exit = *exit_,
               .reason = reason,
               .cause = failure_.cause,
               .checkpoint = checkpointed_,
               .rescales = std::max(0, starts_ - 1),
               .record = facts()});
}

nlohmann::json CommandLauncher::status() const {
  StatusFacts facts;
  std::vector<int> held;
  for (const int rank : replicas_.ranks()) {
    facts.members.push_back({static_cast<MemberId>(rank), replicas_.pid(rank),
                             view_.kill_at || view_.killed ? "leaving" : "active"});
    const std::vector<int> slots = slots_of(view_.held, rank, options_.slots_per_replica);
    held.insert(held.end(), slots.begin(), slots.end());
  }
  facts.reason = reason_;
  facts.restartable = replicas_.restartable();
  facts.generation = std::max<int64_t>(replicas_.generation(), 0);
  facts.replicas = replicas_.living();
  facts.target = view_.target;
  facts.min = options_.replicas.min;
  facts.max = options_.replicas.max;
  if (!options_.slots.empty()) facts.slots = held;
  return report_.status(facts);
}

std::string CommandLauncher::ending() const {
  if (view_.stop == CommandStop::none) return "";
  return cancelled_ ? "cancelled" : "stopped";
}

RunSlots CommandLauncher::slots() const {
  return {!options_.slots.empty(), view_.slots, options_.slots_per_replica, options_.gpus};
}

int CommandLauncher::scale(const ScaleRequest& request) {
  const int before = view_.target;
  if (!request.supervisor.empty() && request.supervisor != options_.supervisor_url) {
    answers(request.supervisor);  // checks the URL
    options_.supervisor_url = request.supervisor;
  }
  if (request.slots) view_.slots = *request.slots;
  view_.target = request.replicas;
  asked_for_ = request.replicas;
  cause_ = "scale";
  return before;
}

bool CommandLauncher::cancel(bool checkpoint) {
  stopped_at_ = Monotonic::now();
  view_.stop = checkpoint ? CommandStop::checkpoint : CommandStop::now;
  cancelled_ = true;
  return checkpoint;
}

RecordFacts CommandLauncher::facts() const {
  return {.command = CommandFacts{replicas_.generation(), replicas_.living(), checkpointed_,
                                  replicas_.restartable(), failure_.exit_code}};
}

}  // namespace adaptdl::launch
