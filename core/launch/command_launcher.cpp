#include "core/launch/command_launcher.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/socket.h"
#include "core/base/system.h"
#include "core/launch/slots.h"

namespace adaptdl::launch {

namespace {

constexpr std::chrono::milliseconds kLook{50};  // how often a group without a leader is looked at

CommandRules rules_of(const CommandOptions& options) {
  CommandRules rules;
  rules.slots_per_replica = options.slots_per_replica;
  rules.max_failures = options.max_failures;
  rules.grace = Seconds(options.grace_s);
  rules.failed_grace = std::min(rules.failed_grace, rules.grace);
  return rules;
}

bool readable(int fd) {
  return wait_ready(fd, POLLIN, Monotonic::now());
}

bool group_lives(pid_t group) {
  return ::kill(-group, 0) == 0;
}

// Where the job's own PATH finds it, or as it is.
std::string find_program(const CommandOptions& options) {
  const auto path = options.environment.find("PATH");
  if (path == options.environment.end() || options.program.find('/') != std::string::npos) {
    return options.program;
  }
  for (size_t begin = 0; begin < path->second.size();) {
    const size_t end = std::min(path->second.find(':', begin), path->second.size());
    const std::string folder = path->second.substr(begin, end - begin);
    const std::string found = absolute_path(join_path(folder, options.program), options.directory);
    if (!folder.empty() && ::access(found.c_str(), X_OK) == 0 && !is_directory(found)) return found;
    begin = end + 1;
  }
  return options.program;
}

}  // namespace

CommandLauncher::CommandLauncher(const CommandOptions& options, Output& output,
                                 SignalCatcher& signals)
    : options_(options),
      output_(output),
      signals_(signals),
      begun_(Monotonic::now()),
      started_(rfc3339(std::chrono::system_clock::now())),
      logs_(options.log_dir, options.log_bytes_max,
            [&output](std::string line) { output.talk(std::move(line)); }),
      control_(options.control_socket, [this](const auto& request) { return on_request(request); }),
      rules_(rules_of(options)),
      replicas_record_(read_replica_record(options.replicas_file)) {
  make_directories(options.checkpoint_dir, 0700);
  make_directories(options.share_dir, 0700);
  view_.target = options.replicas.initial;
  view_.slots = options.slots;
  view_.supervisor_up = options.supervisor_url.empty();
  const int killed =
      kill_leftovers(replicas_record_, "ADAPTDL_CHECKPOINT_PATH=" + options.checkpoint_dir);
  if (killed > 0) {
    output_.talk(fmt::format("killed {} that an earlier launcher had left behind",
                             killed == 1 ? "a process group" : "process groups"));
  }
  replicas_record_.processes.clear();
  replicas_record_.boot_id = boot_id();
}

int CommandLauncher::run() {
  record("starting");
  emit_start();
  decide_all();
  while (!over_) {
    wait();
    take_signals();
    take_ends();
    control_.serve();
    decide_all();
  }
  emit(end_);
  return exit_;
}

void CommandLauncher::wait() {
  std::vector<pollfd> waits{{signals_.fd(), POLLIN, 0}};
  control_.add_waits(waits);
  TimePoint until = std::min(deadline_.value_or(TimePoint::max()), control_.deadline());
  for (const auto& [rank, process] : processes_) {
    if (process.told_group) {
      until = std::min(until, Monotonic::now() + kLook);
    } else {
      waits.push_back({process.child.pidfd(), POLLIN, 0});
    }
  }
  poll_until(waits, until);
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

// A replica is a whole process group: what its leader leaves behind goes with it. But a shell that
// SIGTERM ends at once gives those it had started their time.
bool CommandLauncher::ended(int rank, Process& process) {
  const pid_t group = process.child.pid();
  if (!process.told_group) {
    if (!readable(process.child.pidfd())) return false;
    siginfo_t info{};
    // Not reaped yet, so the number of its group is still its own.
    waitid(P_PID, static_cast<id_t>(group), &info, WEXITED | WNOHANG | WNOWAIT);
    const bool terminated = info.si_code == CLD_KILLED && info.si_status == SIGTERM;
    if (terminated && view_.kill_at && !view_.killed) {
      process.told_group = true;
      ::kill(-group, SIGTERM);
    } else {
      ::kill(-group, SIGKILL);
      process.status = process.child.poll();
    }
  }
  if (process.told_group) {
    // The leader, a zombie, is a member still: it is reaped to see whether there are others.
    if (!process.status) process.status = process.child.poll();
    if (group_lives(group)) return false;
  }
  if (process.status) exited(view_, rank, *process.status, Monotonic::now());
  return process.status.has_value();
}

void CommandLauncher::take_ends() {
  const bool failed_before = view_.failed_at.has_value();
  for (auto entry = processes_.begin(); entry != processes_.end();) {
    if (ended(entry->first, entry->second)) {
      entry = processes_.erase(entry);
    } else {
      ++entry;
    }
  }
  if (!failed_before && view_.failed_at && !view_.asked_outside) {
    report_failure(view_.failed_rank,
                   view_.replicas.at(static_cast<size_t>(view_.failed_rank)).status);
  }
  if (!view_.replicas.empty() && view_.living() == 0) on_generation_end();
}

void CommandLauncher::on_generation_end() {
  const int64_t newest = newest_checkpoint();
  const bool progress = newest > checkpoint_before_;
  // Told to end by nobody we know of, and without a checkpoint: a failure after all.
  if (view_.asked_outside && !progress && view_.stop == CommandStop::none) {
    report_failure(view_.failed_rank,
                   view_.replicas.at(static_cast<size_t>(view_.failed_rank)).status);
  }
  checkpointed_ = progress;
  before_ = static_cast<int>(view_.replicas.size());
  generation_ended(view_, progress, Monotonic::now(), rules_);
  port_ = {};
  view_.supervisor_up = options_.supervisor_url.empty();
}

void CommandLauncher::decide_all() {
  while (!over_) {
    if (view_.replicas.empty() && !view_.supervisor_up) {
      view_.supervisor_up = answers(options_.supervisor_url);
    }
    const CommandDecision decision = decide(Monotonic::now(), view_, rules_);
    reason_ = decision.reason;
    deadline_ = decision.deadline;
    if (decision.action == CommandAction::wait) {
      if (!view_.supervisor_up && told_reason_ != reason_) {
        output_.talk(fmt::format("{} at {}", reason_, options_.supervisor_url));
      }
      told_reason_ = reason_;
      return;
    }
    apply(view_, decision, Monotonic::now());
    carry_out(decision);
  }
}

bool CommandLauncher::carry_out(const CommandDecision& decision) {
  switch (decision.action) {
    case CommandAction::wait:
      break;
    case CommandAction::start:
      start(decision);
      break;
    case CommandAction::terminate:
      output_.talk(decision.reason + "; SIGTERM to all replicas");
      signal_all(SIGTERM);
      break;
    case CommandAction::kill:
      output_.talk(decision.reason + "; killing what is left");
      signal_all(SIGKILL);
      break;
    case CommandAction::finish:
      end("finished", 0, "");
      break;
    case CommandAction::stopped:
      end(cancelled_ ? "cancelled" : "stopped", stop_exit_, "");
      break;
    case CommandAction::give_up:
      // Where none is allowed, how many there were says nothing.
      end("failed", 1,
          options_.max_failures == 0 && !failure_.empty()
              ? failure_
              : decision.reason + (failure_.empty() ? "" : ". " + failure_));
      break;
  }
  return !over_;
}

// SIGTERM is for the program itself, as in a pod: helpers that it has started would take it too.
void CommandLauncher::signal_all(int number) {
  for (auto& [rank, process] : processes_) {
    if (number == SIGKILL) {
      ::kill(-process.child.pid(), SIGKILL);
    } else {
      process.child.send_signal(number);
      process.child.send_signal(SIGCONT);  // one that was stopped could not end
    }
  }
}

void CommandLauncher::start(const CommandDecision& decision) {
  try {
    checkpoint_before_ = newest_checkpoint();
    // Its checkpoint gets this number, and one of that number must not be there yet.
    replicas_record_.generation = std::max(replicas_record_.generation, checkpoint_before_) + 1;
    replicas_record_.processes.clear();
    write_replica_record(options_.replicas_file, replicas_record_);
    port_ = reserve_port();
    const std::vector<std::string> names = options_.gpus > 0 ? gpus() : std::vector<std::string>{};
    for (int rank = 0; rank < decision.count; ++rank) start_replica(rank, decision, names);
    write_replica_record(options_.replicas_file, replicas_record_);
  } catch (const Error& error) {
    // A program that cannot be executed, a full disk: another try would not help.
    signal_all(SIGKILL);
    processes_.clear();
    view_.replicas.clear();
    cause_ = "CannotStart";
    end("failed", 1, error.what());
    return;
  }
  ++starts_;
  emit({{"event", "generation"},
        {"generation", replicas_record_.generation},
        {"members",
         [&] {
           std::vector<int> ranks;
           for (const auto& [rank, process] : processes_) ranks.push_back(rank);
           return ranks;
         }()},
        {"replicas", decision.count},
        {"cause", starts_ == 1       ? "start"
                  : failure_.empty() ? "scale"
                                     : "restart"},
        {"from", before_},
        {"to", decision.count},
        {"immediate", true},
        {"step", nullptr}});
  failure_.clear();
  record("running");
}

void CommandLauncher::start_replica(int rank, const CommandDecision& decision,
                                    const std::vector<std::string>& gpus) {
  const std::vector<int> slots = slots_of(decision.slots, rank, options_.slots_per_replica);
  const CommandPlace place{.rank = rank,
                           .replicas = decision.count,
                           .generation = replicas_record_.generation,
                           .port = port_.number,
                           .threads = threads_for(decision.count),
                           .slots = slots};
  const auto told = environment_variable("no_proxy");
  const std::string no_proxy = told ? *told : environment_variable("NO_PROXY").value_or("");
  const Fd null = open_file("/dev/null", O_RDONLY);
  const Fd log = logs_.open(static_cast<MemberId>(rank));
  SpawnOptions spawn_options;
  spawn_options.argv = {options_.program};
  spawn_options.argv.insert(spawn_options.argv.end(), options_.arguments.begin(),
                            options_.arguments.end());
  spawn_options.path = find_program(options_);
  spawn_options.environment =
      environment_with(command_environment(options_, place, gpus, no_proxy));
  spawn_options.directory = options_.directory;
  spawn_options.descriptors = {{null.get(), 0}, {log.get(), 1}, {log.get(), 2}};
  spawn_options.new_process_group = true;
  if (options_.gpus == 0 && options_.bound) spawn_options.cores = slots;
  Process& process = processes_[rank];
  process.child = spawn(spawn_options);
  replicas_record_.processes.push_back(this_boots_process(process.child.pid()));
}

int CommandLauncher::threads_for(int replicas) const {
  if (options_.threads > 0) return options_.threads;
  if (options_.gpus == 0 && !options_.slots.empty()) return options_.slots_per_replica;
  return std::max(1, available_cores() / std::max(1, replicas));
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
