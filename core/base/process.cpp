#include "core/base/process.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>

#include "core/base/pipe.h"
#include "core/base/poll.h"
#include "core/base/program_path.h"

extern char** environ;

namespace adaptdl {

namespace {

// Steps that may fail in the child, as sent over the pipe with their errno.
enum class Step : int { none, orphaned, directory, descriptors, cores, execute };

struct Report {
  Step step = Step::none;
  int error = 0;
};

// The limit of descriptors before raise_descriptor_limit(), which children get.
std::optional<rlimit> inherited_descriptors;

// Everything the child needs, prepared before the fork: between fork and exec only
// async-signal-safe calls are allowed, so the child may not allocate or lock.
struct Plan {
  std::vector<char*> argv, envp;
  std::vector<std::string> candidates;  // paths to try
  int image_fd = -1;
  const char* directory = nullptr;
  std::vector<std::pair<int, int>> descriptors;
  std::vector<int> lifted;  // room for copies of the descriptors
  int lowest_free = 3;      // above every wanted number
  int open_limit = 0;
  pid_t parent = 0;
  bool die_with_parent = true;
  bool new_process_group = false;
  bool bind = false;  // to `cores`
  cpu_set_t cores;
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> search_path(const std::string& program) {
  const char* variable = std::getenv("PATH");
  return program_places(program, variable != nullptr ? variable : "/usr/bin:/bin");
}

Plan make_plan(const SpawnOptions& options) {
  ADAPTDL_CHECK(!options.argv.empty());
  Plan plan;
  plan.argv = pointers(options.argv);
  if (options.environment) plan.envp = pointers(*options.environment);
  if (options.image != nullptr) {
    plan.image_fd = options.image->fd();
  } else {
    plan.candidates = search_path(options.path.empty() ? options.argv[0] : options.path);
  }
  if (!options.directory.empty()) plan.directory = options.directory.c_str();
  plan.descriptors = options.descriptors;
  plan.lifted.resize(plan.descriptors.size());
  for (const auto& [here, there] : plan.descriptors) {
    plan.lowest_free = std::max(plan.lowest_free, there + 1);
  }
  plan.open_limit = static_cast<int>(std::clamp(sysconf(_SC_OPEN_MAX), 1024L, 1L << 20));
  plan.parent = getpid();
  plan.die_with_parent = options.die_with_parent;
  plan.new_process_group = options.new_process_group;
  plan.bind = !options.cores.empty();
  CPU_ZERO(&plan.cores);
  for (const int core : options.cores) {
    if (core < 0 || core >= CPU_SETSIZE) fail("core {}: no such core number", core);
    CPU_SET(static_cast<size_t>(core), &plan.cores);
  }
  return plan;
}

[[noreturn]] void give_up(int report_fd, Step step) {
  const Report report{step, errno};
  [[maybe_unused]] const ssize_t put = ::write(report_fd, &report, sizeof(report));
  _exit(127);
}

int lift(int fd, int lowest) {
  return fcntl(fd, F_DUPFD_CLOEXEC, lowest);
}

void mark_close_on_exec(int from, int limit) {
  constexpr unsigned kCloseOnExec = 4;  // CLOSE_RANGE_CLOEXEC, Linux 5.11
  if (syscall(SYS_close_range, static_cast<unsigned>(from), ~0u, kCloseOnExec) == 0) return;
  for (int fd = from; fd < limit; ++fd) {
    const int flags = fcntl(fd, F_GETFD);
    if (flags >= 0) fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
  }
}

// In the child. Async-signal-safe calls only.
[[noreturn]] void become(Plan& plan, int report_fd) {
  if (plan.die_with_parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // The parent may have died before that call; then nobody would send the signal.
    if (getppid() != plan.parent) _exit(127);
  }
  // A session of its own as well: the kernel divides the cores among sessions first (autogroup), so
  // that beside other users' sessions all replicas together would get the share of one process.
  if (plan.new_process_group) setsid();
  if (plan.bind && sched_setaffinity(0, sizeof plan.cores, &plan.cores) != 0) {
    give_up(report_fd, Step::cores);
  }
  if (plan.directory != nullptr && chdir(plan.directory) != 0) {
    give_up(report_fd, Step::directory);
  }

  // First duplicate the descriptors above every wanted number, so that none is overwritten before
  // use.
  const int report = lift(report_fd, plan.lowest_free);
  if (report < 0) give_up(report_fd, Step::descriptors);
  for (size_t i = 0; i < plan.descriptors.size(); ++i) {
    plan.lifted[i] = lift(plan.descriptors[i].first, plan.lowest_free);
    if (plan.lifted[i] < 0) give_up(report, Step::descriptors);
  }
  int image = plan.image_fd;
  if (image >= 0 && (image = lift(image, plan.lowest_free)) < 0) give_up(report, Step::descriptors);
  mark_close_on_exec(3, plan.open_limit);
  if (inherited_descriptors) setrlimit(RLIMIT_NOFILE, &*inherited_descriptors);
  for (size_t i = 0; i < plan.descriptors.size(); ++i) {
    if (dup2(plan.lifted[i], plan.descriptors[i].second) < 0) give_up(report, Step::descriptors);
  }

  struct sigaction fallback {};
  fallback.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) sigaction(number, &fallback, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);

  char** envp = plan.envp.empty() ? environ : plan.envp.data();
  if (image >= 0) {
    syscall(SYS_execveat, image, "", plan.argv.data(), envp, AT_EMPTY_PATH);
    give_up(report, Step::execute);
  }
  int error = ENOENT;
  for (const std::string& candidate : plan.candidates) {
    execve(candidate.c_str(), plan.argv.data(), envp);
    // As execvp: a file without permission does not end the search, but its error is kept.
    if (errno != ENOENT && errno != ENOTDIR) error = errno;
    if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) break;
  }
  errno = error;
  give_up(report, Step::execute);
}

// The child, or the step that failed in it.
std::pair<Child, Report> attempt(Plan& plan) {
  auto [reader, writer] = Pipe();

  // Our signal handlers must not run in the child before it has reset them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = fork();
  if (pid == 0) become(plan, writer.get());
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) fail_errno(fork_error, "cannot start another process");
  writer.reset();

  Child child(pid, Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))));
  if (child.pidfd() < 0) fail_errno(errno, "cannot watch a child process (needs Linux 5.3)");
  Report report;
  ssize_t got;
  do {
    got = ::read(reader.get(), &report, sizeof(report));
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof(report))) return {std::move(child), Report{}};
  child.wait();
  return {Child(), report};
}

[[noreturn]] void explain(const Report& report, const SpawnOptions& options) {
  const std::string program = options.path.empty() ? options.argv[0] : options.path;
  if (report.step == Step::directory) {
    fail_errno(report.error, options.directory + ": cannot change to this folder");
  }
  if (report.step == Step::descriptors) {
    fail_errno(report.error, program + ": cannot pass file descriptors to the program");
  }
  if (report.step == Step::cores) {
    fail_errno(report.error, fmt::format("{}: cannot bind the program to cores {}", program,
                                         fmt::join(options.cores, ", ")));
  }
  throw CannotExecute(fmt::format("{}: cannot execute: {}", program,
                                  std::generic_category().message(report.error)));
}

}  // namespace

Child spawn(const SpawnOptions& options) {
  for (int tries = 0;; ++tries) {
    Plan plan = make_plan(options);
    auto [child, report] = attempt(plan);
    if (report.step == Step::none) return std::move(child);
    const bool execution = report.step == Step::execute;
    const bool refused = report.error == EACCES || report.error == EPERM;
    if (execution && refused && options.image != nullptr && options.image->in_memory()) {
      options.image->move_to_file();
    } else if (execution && report.error == ETXTBSY && tries < 50) {
      // Another thread's child briefly holds the descriptor that wrote the file.
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    } else {
      explain(report, options);
    }
  }
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pidfd_(std::move(other.pidfd_)),
      status_(std::exchange(other.status_, std::nullopt)) {}

Child& Child::operator=(Child&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(pidfd_, other.pidfd_);
  std::swap(status_, other.status_);
  return *this;
}

Child::~Child() {
  if (!running()) return;
  ::kill(pid_, SIGKILL);  // not reaped yet, so the number is still its own
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

pid_t Child::release() {
  pidfd_.reset();
  status_.reset();
  return std::exchange(pid_, -1);
}

bool Child::send_signal(int signal) {
  if (!running()) return false;
  return syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0) == 0;
}

std::optional<ExitStatus> Child::reap(int flags) {
  if (status_ || pid_ <= 0) return status_;
  int status = 0;
  pid_t got;
  do {
    got = waitpid(pid_, &status, flags);
  } while (got < 0 && errno == EINTR);
  if (got < 0) fail_errno(errno, fmt::format("cannot wait for process {}", pid_));
  if (got == pid_) status_ = decode_wait_status(status);
  return status_;
}

std::optional<ExitStatus> Child::poll() {
  return reap(WNOHANG);
}

std::optional<ExitStatus> Child::wait_until(TimePoint deadline) {
  if (running() && !wait_ready(pidfd_.get(), POLLIN, deadline)) return std::nullopt;
  return reap(0);
}

ExitStatus Child::wait() {
  ADAPTDL_CHECK(pid_ > 0);
  return *reap(0);
}

CapturedRun run_and_capture(SpawnOptions options, Seconds timeout, bool with_stderr,
                            size_t max_bytes) {
  const TimePoint deadline =
      Monotonic::now() + std::chrono::duration_cast<Monotonic::duration>(timeout);
  auto [reader, writer] = Pipe();
  options.descriptors.emplace_back(writer.get(), 1);
  if (with_stderr) options.descriptors.emplace_back(writer.get(), 2);
  Child child = spawn(options);
  writer.reset();

  CapturedRun run;
  char buffer[8192];
  for (;;) {
    if (!wait_ready(reader.get(), POLLIN, deadline)) break;
    const ssize_t got = ::read(reader.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    run.output.append(buffer, static_cast<size_t>(got));
    if (run.output.size() > max_bytes) {
      fail("{}: printed more than {} bytes", options.argv[0], max_bytes);
    }
  }
  const std::optional<ExitStatus> status = child.wait_until(deadline);
  if (!status) fail("{}: did not finish within {} s", options.argv[0], timeout.count());
  run.status = *status;
  return run;
}

void raise_descriptor_limit() {
  constexpr rlim_t kEnough = 65'536;
  rlimit limit{};
  if (inherited_descriptors || getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlimit before = limit;
  limit.rlim_cur = std::min(limit.rlim_max, kEnough);
  if (limit.rlim_cur <= before.rlim_cur || setrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  inherited_descriptors = before;
}

std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::optional<std::string>>>& changes) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    const bool changed = std::any_of(changes.begin(), changes.end(),
                                     [&](const auto& change) { return change.first == name; });
    if (!changed) result.emplace_back(text);
  }
  for (const auto& [name, value] : changes) {
    if (value) result.push_back(name + "=" + *value);
  }
  return result;
}

ExitStatus decode_wait_status(int status) {
  if (WIFSIGNALED(status)) return {true, WTERMSIG(status)};
  return {false, WEXITSTATUS(status)};
}

std::string ExitStatus::describe() const {
  if (!signaled) return fmt::format("exit code {}", value);
  const char* name = strsignal(value);
  return fmt::format("killed by signal {} ({})", value, name != nullptr ? name : "unknown");
}

}  // namespace adaptdl
