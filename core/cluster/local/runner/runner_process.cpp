#include "core/cluster/local/runner/runner_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/process.h"
#include "core/base/system.h"
#include "core/base/version.h"
#include "core/formats/json.h"
#include "core/launch/client.h"

namespace adaptdl::local {

namespace {

constexpr size_t kMaxRunnerFacts = 4u << 20;

struct RunnerFacts {
  pid_t pid = 0;  // 0: unknown
  std::optional<uint64_t> start_time;
  std::string boot_id, host;
};

RunnerFacts runner_facts(const JobFolder& folder) {
  const std::string where = folder.runner_file();
  try {
    if (!path_exists(where)) return {};
    const Json facts = parse_json(read_file(where, kMaxRunnerFacts), where);
    return {json_get_or<pid_t>(facts, "pid", where, 0),
            json_find<uint64_t>(facts, "start_time", where),
            json_get_or<std::string>(facts, "boot_id", where, ""),
            json_get_or<std::string>(facts, "host", where, "")};
  } catch (const Error&) {  // removed meanwhile with its folder, or not ours
    return {};
  }
}

}  // namespace

RunnerProcess RunnerProcess::start(const std::string& adaptdl, const JobFolder& folder,
                                   const std::vector<int>& slots, const std::string& supervisor) {
  const Fd null = open_file("/dev/null", O_RDONLY);
  const Fd log = open_file(folder.runner_errors(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  SpawnOptions options;
  options.argv = {"adaptdl", "__runner", folder.path, "--slots",
                  fmt::format("{}", fmt::join(slots, ","))};
  options.path = adaptdl;
  options.environment = environment_with({{"ADAPTDL_SUPERVISOR_URL", supervisor}});
  options.directory = folder.path;
  options.descriptors = {{null.get(), 0}, {log.get(), 1}, {log.get(), 2}};
  options.die_with_parent = false;
  options.new_process_group = true;
  Child child = spawn(options);
  RunnerProcess runner;
  runner.pidfd_ = Fd(fcntl(child.pidfd(), F_DUPFD_CLOEXEC, 0));
  if (!runner.pidfd_) fail_errno(errno, "cannot watch the runner");
  runner.pid_ = child.release();
  return runner;
}

RunnerProcess RunnerProcess::find(const JobFolder& folder) {
  const RunnerFacts facts = runner_facts(folder);
  if (facts.pid <= 0 || facts.boot_id != boot_id()) return {};
  RunnerProcess runner;
  Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, facts.pid, 0)));
  // Checked after opening the descriptor: it is this process then, or none.
  if (!pidfd || process_start_time(facts.pid) != facts.start_time) return {};
  runner.pid_ = facts.pid;
  runner.pidfd_ = std::move(pidfd);
  if (runner.ended()) return {};
  return runner;
}

bool RunnerProcess::ended() const {
  pollfd wait{pidfd_.get(), POLLIN, 0};
  return ::poll(&wait, 1, 0) > 0;
}

bool RunnerProcess::send_signal(int signal) const {
  return syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0) == 0;
}

std::optional<int> RunnerProcess::reap() {
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  return decode_wait_status(status).shell_code();
}

std::optional<LastRunner> last_runner(const JobFolder& folder) {
  const RunnerFacts facts = runner_facts(folder);
  if (facts.pid <= 0) return std::nullopt;
  return LastRunner{facts.pid, facts.boot_id == boot_id(), facts.host};
}

void record_runner(const JobFolder& folder) {
  const pid_t pid = getpid();
  const Json facts = {{"pid", pid},           {"start_time", process_start_time(pid).value_or(0)},
                      {"boot_id", boot_id()}, {"host", host_name()},
                      {"version", version()}, {"protocol", launch::kControlProtocol}};
  replace_file(folder.runner_file(), dump_json(facts) + "\n", 0600);
}

void forget_runner(const JobFolder& folder) {
  // If the file stays, the end is noted twice, which does little harm.
  ::unlink(folder.runner_file().c_str());
}

}  // namespace adaptdl::local
