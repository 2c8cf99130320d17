#include "core/launch/command/command_launcher.h"

#include <algorithm>
#include <csignal>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/poll.h"
#include "core/launch/slots.h"

namespace adaptdl::launch {

namespace {

CommandRules rules_of(const CommandOptions& options) {
  CommandRules rules;
  rules.slots_per_replica = options.slots_per_replica;
  rules.max_failures = options.max_failures;
  rules.grace = Seconds(options.grace_s);
  rules.failed_grace = std::min(rules.failed_grace, rules.grace);
  return rules;
}

}  // namespace

CommandLauncher::CommandLauncher(const CommandOptions& options, RunReport& report,
                                 SignalCatcher& signals)
    : options_(options),
      report_(report),
      signals_(signals),
      rules_(rules_of(options)),
      control_(options.control_socket,
               [this](const auto& request) { return answer_request(*this, request); }),
      processes_(options, report) {
  make_directories(options.checkpoint_dir, 0700);
  make_directories(options.share_dir, 0700);
  view_.target = options.replicas.initial;
  view_.slots = options.slots;
  view_.supervisor_up = options.supervisor_url.empty();
}

int CommandLauncher::run() {
  report_.record("starting", facts());
  const ReplicaBounds& bounds = options_.replicas;
  report_.start({.replicas = bounds.initial,
                 .min = bounds.min,
                 .max = bounds.max,
                 .threads = processes_.threads_for(bounds.initial),
                 .gpus = options_.gpus});
  decide_all();
  while (!exit_) {
    wait();
    take_signals();
    take_ends();
    control_.serve();
    decide_all();
  }
  return *exit_;
}

void CommandLauncher::wait() {
  std::vector<pollfd> waits{{signals_.fd(), POLLIN, 0}};
  control_.add_waits(waits);
  processes_.add_waits(waits);
  poll_until(waits, std::min({deadline_.value_or(TimePoint::max()), control_.deadline(),
                              processes_.deadline()}));
}

void CommandLauncher::take_signals() {
  for (const int number : signals_.take()) {
    if (number == SIGCHLD) continue;
    if (view_.stop != CommandStop::none) {
      view_.stop = CommandStop::now;
      continue;
    }
    view_.stop = CommandStop::checkpoint;
    stop_exit_ = 128 + number;
  }
}

void CommandLauncher::take_ends() {
  const bool failed_before = view_.failed_at.has_value();
  processes_.take_ends(view_);
  if (!failed_before && view_.failed_at && !view_.asked_outside) {
    add_failure(view_.failed_rank,
                view_.replicas.at(static_cast<size_t>(view_.failed_rank)).status);
  }
  if (!view_.replicas.empty() && view_.living() == 0) on_generation_end();
}

void CommandLauncher::on_generation_end() {
  const bool progress = newest_checkpoint() > checkpoint_before_;
  // An unknown sender asked it to end, and it wrote no checkpoint: count it as a failure.
  if (view_.asked_outside && !progress && view_.stop == CommandStop::none) {
    add_failure(view_.failed_rank,
                view_.replicas.at(static_cast<size_t>(view_.failed_rank)).status);
  }
  checkpointed_ = progress;
  before_ = static_cast<int>(view_.replicas.size());
  generation_ended(view_, progress, Monotonic::now(), rules_);
  processes_.generation_ended();
  view_.supervisor_up = options_.supervisor_url.empty();
}

void CommandLauncher::decide_all() {
  while (!exit_) {
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

void CommandLauncher::carry_out(const CommandDecision& decision) {
  const std::string& failure = failure_.sentence;
  switch (decision.action) {
    case CommandAction::wait:
      break;
    case CommandAction::start:
      start(decision);
      break;
    case CommandAction::terminate:
      report_.talk(decision.reason + "; SIGTERM to all replicas");
      processes_.signal_all(SIGTERM);
      break;
    case CommandAction::kill:
      report_.talk(decision.reason + "; killing the remaining processes");
      processes_.signal_all(SIGKILL);
      break;
    case CommandAction::finish:
      end("finished", 0, "");
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

void CommandLauncher::start(const CommandDecision& decision) {
  try {
    checkpoint_before_ = newest_checkpoint();
    // The program names its checkpoint by the generation's number, which must not exist yet.
    processes_.start(decision.count, decision.slots, checkpoint_before_);
  } catch (const Error& error) {
    // The program cannot be executed, or the disk is full: another attempt would not help.
    view_.replicas.clear();
    failure_.cause = "CannotStart";
    end("failed", 1, error.what());
    return;
  }
  ++starts_;
  const std::vector<int> ranks = processes_.ranks();
  report_.generation({.number = processes_.generation(),
                      .members = {ranks.begin(), ranks.end()},
                      .from = before_,
                      .cause = starts_ == 1                ? "start"
                               : failure_.sentence.empty() ? "scale"
                                                           : "restart",
                      .immediate = true});
  failure_.sentence.clear();
  report_.record("running", facts());
}

void CommandLauncher::add_failure(int rank, const ExitStatus& status) {
  const bool memory_ran_out = oom_.explains(status);
  const std::string reason = memory_ran_out ? "killed: memory ran out" : status.describe();
  const std::vector<std::string> log = processes_.last_lines(rank);
  report_.failure({.member = static_cast<MemberId>(rank),
                   .reason = reason,
                   .status = status,
                   .next = view_.stop != CommandStop::none
                               ? "the run is stopping"
                               : "all replicas restart from their newest checkpoint, unless that "
                                 "has failed too often",
                   .log = log});
  report_.talk(fmt::format("replica {}: {}", rank, reason));
  failure_.cause = memory_ran_out ? "OutOfMemory" : "ReplicaFailed";
  failure_.exit_code = status.shell_code();
  failure_.sentence = fmt::format("Replica {}: {}", rank, reason);
  if (!log.empty()) {
    failure_.sentence += fmt::format(". Its last log lines:\n  {}", fmt::join(log, "\n  "));
  }
}

void CommandLauncher::end(const std::string& result, int exit, const std::string& reason) {
  exit_ = exit;
  if (!reason.empty()) report_.talk(reason);
  report_.end({.result = result,
               .exit = exit,
               .reason = reason,
               .cause = failure_.cause,
               .checkpoint = checkpointed_,
               .rescales = std::max(0, starts_ - 1),
               .record = facts()});
}

nlohmann::json CommandLauncher::status() const {
  StatusFacts facts;
  std::vector<int> held;
  for (const int rank : processes_.ranks()) {
    facts.members.push_back({static_cast<MemberId>(rank), processes_.pid(rank),
                             view_.kill_at || view_.killed ? "leaving" : "active"});
    const std::vector<int> slots = slots_of(view_.held, rank, options_.slots_per_replica);
    held.insert(held.end(), slots.begin(), slots.end());
  }
  facts.reason = reason_;
  facts.generation = std::max<int64_t>(processes_.generation(), 0);
  facts.replicas = processes_.living();
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
  if (request.slots) view_.slots = *request.slots;
  view_.target = request.replicas;
  return before;
}

void CommandLauncher::cancel(bool checkpoint) {
  view_.stop = checkpoint ? CommandStop::checkpoint : CommandStop::now;
  cancelled_ = true;
}

RecordFacts CommandLauncher::facts() const {
  return {.command = CommandFacts{processes_.generation(), processes_.living(), checkpointed_,
                                  failure_.exit_code}};
}

int64_t CommandLauncher::newest_checkpoint() const {
  constexpr std::string_view kPrefix = "checkpoint-";
  int64_t newest = -1;
  for (const std::string& name : list_directory(options_.checkpoint_dir)) {
    if (!name.starts_with(kPrefix)) continue;
    const auto number = try_parse<int64_t>(std::string_view(name).substr(kPrefix.size()));
    newest = std::max(newest, number.value_or(-1));
  }
  return newest;
}

}  // namespace adaptdl::launch
