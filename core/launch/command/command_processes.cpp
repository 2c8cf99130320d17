#include "core/launch/command/command_processes.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <iterator>
#include <sys/wait.h>
#include <system_error>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/poll.h"
#include "core/base/program_path.h"
#include "core/base/system.h"
#include "core/job/worker_environment.h"
#include "core/launch/command/pickle_refusal.h"
#include "core/launch/run/replica.h"
#include "core/launch/slots.h"

namespace adaptdl::launch {

namespace {

constexpr std::chrono::milliseconds kLook{50};  // time between checks of a group without a leader

constexpr std::chrono::milliseconds kShowRest{200};

// Whether the process has a handler for this signal; no once it has ended.
bool catches(pid_t pid, int signal) {
  constexpr size_t kMostStatus = 1u << 20;
  constexpr std::string_view kCaught = "\nSigCgt:\t";
  try {
    const std::string text = read_file(fmt::format("/proc/{}/status", pid), kMostStatus);
    const size_t at = text.find(kCaught);
    if (at == std::string::npos) return false;
    return (std::strtoull(text.c_str() + at + kCaught.size(), nullptr, 16) >> (signal - 1) & 1) !=
           0;
  } catch (const Error&) {  // it ended
    return false;
  }
}

// Whether Ctrl-C is what the program expects, such as Python's KeyboardInterrupt. What catches
// SIGTERM was made to save then. Shells catch SIGINT for themselves, whatever they run.
bool takes_interrupt(pid_t pid) {
  constexpr const char* kShells[] = {"bash", "busybox", "dash", "ksh", "sh", "zsh"};
  std::error_code error;
  const auto program = std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), error);
  const bool shell = std::ranges::find(kShells, program.filename()) != std::end(kShells);
  return !shell && catches(pid, SIGINT) && !catches(pid, SIGTERM);
}

// Whether the leader of the group has started another program that was made to save on SIGTERM, as
// a script starts a trainer. Its forks, such as loaders of data, have their own handlers.
bool started_a_trainer(pid_t leader) {
  constexpr size_t kMostArguments = 1u << 22;
  const auto words = [](pid_t pid) {
    try {
      return read_file(fmt::format("/proc/{}/cmdline", pid), kMostArguments);
    } catch (const Error&) {  // it ended
      return std::string();
    }
  };
  const std::string own = words(leader);
  return std::ranges::any_of(living_in_group(leader), [&](pid_t pid) {
    return pid != leader && catches(pid, SIGTERM) && words(pid) != own;
  });
}

// Passes Ctrl-C on to those whom a shell or another program, the group's leader, has left when it
// died of `died_of`. SIGINT has reached them already, unless they ignore it, as background
// processes of a shell do.
void interrupt_rest(pid_t group, int died_of) {
  for (const pid_t pid : living_in_group(group)) {
    if (died_of == SIGINT) {
      if (!catches(pid, SIGINT)) ::kill(pid, SIGTERM);
    } else {
      ::kill(pid, takes_interrupt(pid) ? SIGINT : SIGTERM);
    }
  }
}

bool readable(int fd) {
  return wait_ready(fd, POLLIN, Monotonic::now());
}

// The program's path according to the job's own PATH, or unchanged.
std::string find_program(const CommandOptions& options) {
  const auto path = options.environment.find("PATH");
  if (path == options.environment.end() || options.program.find('/') != std::string::npos) {
    return options.program;
  }
  const ProgramPath found = find_in_path(options.program, path->second, options.directory);
  return found.executable ? found.path : options.program;
}

LogWriter::Echo echo_to(ReplicaConsole* console) {
  if (console == nullptr) return {};
  return [console](MemberId rank, int stream, std::string_view bytes) {
    console->take(rank, stream, bytes);
  };
}

}  // namespace

CommandProcesses::CommandProcesses(const CommandOptions& options, ReplicasFile file,
                                   const Talk& talk, ReplicaConsole* console)
    : options_(options),
      console_(console),
      file_(std::move(file)),
      logs_(options.log_dir, options.log_bytes_max, talk, echo_to(console)),
      gpus_(options.gpus > 0 ? gpus() : std::vector<std::string>{}),
      record_(read_replica_record(file_.path)) {
  const int killed = kill_leftovers(record_, "ADAPTDL_CHECKPOINT_PATH=" + options.checkpoint_dir);
  if (killed > 0) {
    talk(fmt::format("killed {} that an earlier launcher had left behind",
                     killed == 1 ? "a process group" : "process groups"));
  }
  record_.processes.clear();
  record_.boot_id = boot_id();
  record_.job = options.job_id();
}

void CommandProcesses::begin(const CommandGeneration& generation, const CommandHost& host,
                             std::string rank_0) {
  ADAPTDL_CHECK(processes_.empty());
  generation_ = generation;
  host_ = host;
  rank_0_ = std::move(rank_0);
  if (console_ != nullptr) console_->replicas(generation.replicas, host.first_rank);
  record_.generation = generation.number;
  record_.processes.clear();
  write_replica_record(file_.path, record_);
}

void CommandProcesses::start(int rank, const std::vector<int>& slots) {
  const CommandPlace place{.generation = generation_,
                           .host = host_,
                           .rank = rank,
                           .rank_0 = rank_0_,
                           .error_file = error_file(rank),
                           .threads = threads_for(host_.replicas),
                           .slots = slots};
  if (static_cast<int>(gpus_.size()) < options_.gpus) {
    fail("{} GPUs requested, but this machine has {}", options_.gpus, gpus_.size());
  }
  const ProxyExceptions ours{environment_variable("no_proxy"), environment_variable("NO_PROXY")};
  const Fd null = open_file("/dev/null", O_RDONLY);
  remove_tree(place.error_file);  // of an earlier generation
  // A single pipe keeps the order of what is written to both.
  const auto member = static_cast<MemberId>(rank);
  LogWriter::Streams log;
  if (console_ != nullptr) {
    log = logs_.open_streams(member);
  } else {
    log.out = logs_.open(member);
  }
  SpawnOptions spawn_options;
  spawn_options.argv = {options_.program};
  spawn_options.argv.insert(spawn_options.argv.end(), options_.arguments.begin(),
                            options_.arguments.end());
  spawn_options.path = find_program(options_);
  spawn_options.environment = environment_with(command_environment(options_, place, gpus_, ours));
  spawn_options.directory = options_.directory;
  spawn_options.descriptors = {
      {null.get(), 0}, {log.out.get(), 1}, {log.err ? log.err.get() : log.out.get(), 2}};
  spawn_options.new_process_group = true;
  if (options_.gpus == 0 && options_.bound && !options_.hosts) spawn_options.cores = slots;
  Child child = spawn(spawn_options);
  record_.processes.push_back(this_boots_process(child.pid()));
  processes_[rank].child = std::move(child);
  write_replica_record(file_.path, record_);
}

void CommandProcesses::signal(int rank, int number) {
  const auto found = processes_.find(rank);
  if (found == processes_.end()) return;
  Process& process = found->second;
  const pid_t group = process.child.pid();
  process.told = number;
  if (number == SIGKILL) {
    ::kill(-group, SIGKILL);
    return;
  }
  if (number == SIGINT && takes_interrupt(group) && !started_a_trainer(group)) {
    ::kill(-group, SIGINT);
  } else {
    process.child.send_signal(SIGTERM);
  }
  process.child.send_signal(SIGCONT);  // a stopped process could not end
}

void CommandProcesses::signal_all(int number) {
  for (const int rank : ranks()) signal(rank, number);
}

void CommandProcesses::abandon() {
  signal_all(SIGKILL);
  processes_.clear();
}

std::vector<EndedReplica> CommandProcesses::take_ends() {
  std::vector<EndedReplica> result;
  for (auto entry = processes_.begin(); entry != processes_.end();) {
    Process& process = entry->second;
    if (!ended(process)) {
      ++entry;
      continue;
    }
    EndedReplica replica{.rank = entry->first, .status = *process.status};
    replica.at_s = wall_now_s();
    replica.asked = process.told != 0;
    replica.out_of_memory = !replica.asked && oom_.explains(replica.status);
    result.push_back(std::move(replica));
    entry = processes_.erase(entry);
  }
  return result;
}

void CommandProcesses::reap_orphans() const {
  reap_strangers([this](pid_t pid) {
    return std::any_of(processes_.begin(), processes_.end(),
                       [pid](const auto& entry) { return entry.second.child.pid() == pid; });
  });
}

// A replica is a whole process group: the group is killed when its leader ends. But if the leader
// is a shell that the signal ends at once, the processes that it started keep their grace time.
bool CommandProcesses::ended(Process& process) {
  const pid_t group = process.child.pid();
  if (!process.told_group) {
    if (!readable(process.child.pidfd())) return false;
    siginfo_t info{};
    // The leader is not reaped yet, so its process group number cannot have been reused.
    waitid(P_PID, static_cast<id_t>(group), &info, WEXITED | WNOHANG | WNOWAIT);
    const bool terminated = info.si_code == CLD_KILLED && info.si_status == SIGTERM;
    const bool interrupted = info.si_code == CLD_KILLED && info.si_status == SIGINT;
    if (terminated && process.told == SIGTERM) {
      process.told_group = true;
      ::kill(-group, SIGTERM);
    } else if ((terminated || interrupted) && process.told == SIGINT) {
      process.told_group = true;
      interrupt_rest(group, info.si_status);
    } else {
      ::kill(-group, SIGKILL);
      process.status = process.child.poll();
    }
  }
  if (process.told_group) {
    // The leader, a zombie, still counts as a member: reap it to see whether there are others.
    if (!process.status) process.status = process.child.poll();
    if (group_lives(group)) return false;
  }
  return process.status.has_value();
}

void CommandProcesses::can_restart() {
  if (std::exchange(record_.restartable, true)) return;
  try {
    write_replica_record(file_.path, record_);
  } catch (const Error&) {  // a full disk: the next start writes it, or fails
  }
}

std::vector<int> CommandProcesses::ranks() const {
  std::vector<int> result;
  for (const auto& [rank, process] : processes_) result.push_back(rank);
  return result;
}

int CommandProcesses::threads_for(int replicas) const {
  if (options_.threads > 0) return options_.threads;
  if (options_.hosts) replicas = options_.hosts->slots;
  if (options_.gpus == 0 && !options_.slots.empty()) return options_.slots_per_replica;
  return std::max(1, available_cores() / std::max(1, replicas));
}

void CommandProcesses::explain(EndedReplica& replica) {
  replica.error = read_program_error(error_file(replica.rank));
  replica.log = logs_.final_lines(static_cast<MemberId>(replica.rank));
}

bool CommandProcesses::needs_pickles(int rank) {
  if (generation_.load_pickles || options_.environment.contains(kLoadPicklesVariable) ||
      environment_variable(kLoadPicklesVariable)) {
    return false;
  }
  constexpr int kWhole = 100;  // lines: a traceback and what torch.load advises
  const std::vector<std::string> lines =
      logs_.tail(static_cast<MemberId>(rank), kWhole, Monotonic::now() + kShowRest);
  return refused_own_pickle(fmt::format("{}", fmt::join(lines, "\n")));
}

void CommandProcesses::load_pickles() {
  record_.load_pickles = true;  // the next start writes it
}

std::string CommandProcesses::error_file(int rank) const {
  return join_path(options_.log_dir, fmt::format("error-{}.json", rank));
}

void CommandProcesses::show_rest() {
  if (console_ == nullptr) return;
  const TimePoint until = Monotonic::now() + kShowRest;
  const int end = host_.first_rank + host_.replicas;
  for (int rank = host_.first_rank; rank < end; ++rank) {
    logs_.tail(static_cast<MemberId>(rank), 0, until);
  }
  console_->drain(until);
}

void CommandProcesses::add_waits(std::vector<pollfd>& waits) const {
  for (const auto& [rank, process] : processes_) {
    if (!process.told_group) waits.push_back({process.child.pidfd(), POLLIN, 0});
  }
}

TimePoint CommandProcesses::deadline() const {
  const bool look = std::any_of(processes_.begin(), processes_.end(),
                                [](const auto& entry) { return entry.second.told_group; });
  return look ? Monotonic::now() + kLook : TimePoint::max();
}

}  // namespace adaptdl::launch
