#include "core/cluster/local/runner.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/json.h"
#include "core/base/process.h"
#include "core/base/socket.h"
#include "core/base/system.h"

namespace adaptdl::local {

namespace {

constexpr const char* kRunnerFile = "runner.json";
constexpr size_t kMaxFile = 4u << 20;
constexpr size_t kMaxAnswer = 4u << 20;

nlohmann::json read_json(const std::string& path) {
  try {
    if (path_exists(path)) return parse_json(read_file(path, kMaxFile), path);
  } catch (const Error&) {  // half gone with its folder, or not ours
  }
  return nullptr;
}

struct RunnerFacts {
  pid_t pid = 0;  // 0: none are known
  std::optional<uint64_t> start_time;
  std::string boot_id;
};

RunnerFacts runner_facts(const std::string& folder) {
  const nlohmann::json facts = read_json(join_path(folder, kRunnerFile));
  try {
    if (!facts.is_object()) return {};
    return {json_get_or<pid_t>(facts, "pid", kRunnerFile, 0),
            json_find<uint64_t>(facts, "start_time", kRunnerFile),
            json_get_or<std::string>(facts, "boot_id", kRunnerFile, "")};
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

RunnerProcess RunnerProcess::start(const std::string& adaptdl, const std::string& folder,
                                   const std::vector<int>& slots, const std::string& supervisor) {
  const Fd null = open_file("/dev/null", O_RDONLY);
  const Fd log = open_file(join_path(folder, "runner.log"), O_WRONLY | O_CREAT | O_APPEND, 0600);
  SpawnOptions options;
  options.argv = {"adaptdl", "__runner", folder, "--slots",
                  fmt::format("{}", fmt::join(slots, ","))};
  options.path = adaptdl;
  options.environment = environment_with({{"ADAPTDL_SUPERVISOR_URL", supervisor}});
  options.directory = folder;
  options.descriptors = {{null.get(), 0}, {log.get(), 1}, {log.get(), 2}};
  options.die_with_parent = false;
  options.new_process_group = true;
  Child child = spawn(options);
  RunnerProcess runner;
  runner.pidfd_ = Fd(fcntl(child.pidfd(), F_DUPFD_CLOEXEC, 0));
  if (!runner.pidfd_) fail_errno(errno, "cannot watch a runner");
  runner.pid_ = child.release();
  return runner;
}

RunnerProcess RunnerProcess::find(const std::string& folder) {
  const RunnerFacts facts = runner_facts(folder);
  if (facts.pid <= 0 || facts.boot_id != boot_id()) return {};
  RunnerProcess runner;
  Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, facts.pid, 0)));
  // Looked at after the descriptor was had: it is the same process then, or none.
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

std::optional<LastRunner> last_runner(const std::string& folder) {
  const RunnerFacts facts = runner_facts(folder);
  if (facts.pid <= 0) return std::nullopt;
  return LastRunner{facts.pid, facts.boot_id == boot_id()};
}

void forget_runner(const std::string& folder) {
  // One that stays is noted twice, which does little harm.
  ::unlink(join_path(folder, kRunnerFile).c_str());
}

RunnerEnd runner_end(const std::string& folder, pid_t pid) {
  const std::string where = join_path(folder, "run.json");
  try {
    const nlohmann::json record = read_json(where);
    if (!record.is_object() || json_get_or<int64_t>(record, "pid", where, 0) != pid) return {};
    return {.state = json_get_or<std::string>(record, "state", where, ""),
            .reason = json_get_or<std::string>(record, "reason", where, ""),
            .cause = json_get_or<std::string>(record, "cause", where, ""),
            .step = json_get_or<int64_t>(record, "step", where, 0),
            .exit_code = json_find<int>(record, "exit_code", where),
            .program_exit_code = json_find<int>(record, "program_exit_code", where)};
  } catch (const Error&) {
    return {};
  }
}

RunnerQuery::RunnerQuery(const std::string& socket, const nlohmann::json& request, Seconds timeout)
    : deadline_(Monotonic::now()) {
  std::optional<Fd> connected;
  try {
    connected = try_connect_unix(socket, false);
  } catch (const Error&) {  // the job's program put something else there, or took the permission
  }
  if (!connected) return;
  const std::string line = dump_json(request) + "\n";
  // A request is smaller than a socket's buffer.
  if (::send(connected->get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT) !=
      static_cast<ssize_t>(line.size())) {
    return;
  }
  set_nonblocking(connected->get());
  socket_ = std::move(*connected);
  deadline_ += std::chrono::duration_cast<Monotonic::duration>(timeout);
}

bool RunnerQuery::serve() {
  if (!socket_) return true;
  std::byte chunk[16384];
  while (const auto got = recv_some(socket_.get(), chunk)) {
    if (*got == 0 || received_.size() > kMaxAnswer) return true;
    received_.append(reinterpret_cast<const char*>(chunk), *got);
    const size_t end = received_.find('\n');
    if (end == received_.npos) continue;
    try {
      answer_ = parse_json(received_.substr(0, end), "answer of a runner");
    } catch (const Error&) {
    }
    return true;
  }
  return Monotonic::now() >= deadline_;
}

}  // namespace adaptdl::local
