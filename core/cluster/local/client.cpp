#include "core/cluster/local/client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/system.h"
#include "core/base/text.h"
#include "core/cluster/local/runner/job_folder.h"
#include "core/launch/client.h"
#include "core/net/socket.h"

namespace adaptdl::local {

namespace {

constexpr size_t kMaxLock = 4096;

// What the newest service has written into its lock: "PID START_TIME HOST", without the host if it
// is of an earlier version.
struct LockFacts {
  pid_t pid = 0;
  uint64_t start_time = 0;
  std::string host;
};

std::optional<LockFacts> lock_facts() {
  const std::string path = local_paths().lock;
  if (!path_exists(path)) return std::nullopt;
  const std::string text = read_file(path, kMaxLock);
  const size_t end = text.find('\n');
  if (end == text.npos) return std::nullopt;
  const std::vector<std::string> words = split(std::string_view(text).substr(0, end), ' ');
  if (words.size() < 2) return std::nullopt;
  const auto pid = try_parse<pid_t>(words[0]);
  const auto start = try_parse<uint64_t>(words[1]);
  if (!pid || *pid <= 0 || !start) return std::nullopt;
  return LockFacts{*pid, *start, words.size() > 2 ? words[2] : ""};
}

// The socket of the live service; "" if there is none.
std::string live_socket() {
  const LocalPaths paths = local_paths();
  for (const std::string& socket : {paths.socket, paths.other_socket}) {
    if (!socket.empty() && try_connect_unix(socket)) return socket;
  }
  return "";
}

[[noreturn]] void fail_unreachable() {
  const std::string lock = local_paths().lock;
  if (const auto service = service_process()) {
    fail(
        "the adaptdl service (process {}) listens on another socket than this command expects; "
        "restart it: `adaptdl serve --stop`, then `adaptdl serve`. Jobs keep running.",
        service->pid);
  }
  refuse_elsewhere();
  if (service_locked()) {
    fail(
        "an adaptdl service of an earlier version holds {} and listens on a socket that this "
        "command cannot find. Set XDG_RUNTIME_DIR to the value that the service was started with, "
        "or end the service with SIGTERM and run `adaptdl serve`. Jobs keep running.",
        lock);
  }
  fail(
      "no adaptdl service is running for you on this machine; start it with `adaptdl serve` or "
      "`adaptdl submit`");
}

}  // namespace

bool service_runs() {
  return !live_socket().empty();
}

std::optional<ServiceProcess> service_process() {
  const auto facts = lock_facts();
  if (!facts) return std::nullopt;
  ServiceProcess service{facts->pid, Fd(static_cast<int>(syscall(SYS_pidfd_open, facts->pid, 0)))};
  // Checked after opening the descriptor: it is this process then, or none.
  if (!service.pidfd || process_start_time(facts->pid) != facts->start_time) return std::nullopt;
  pollfd wait{service.pidfd.get(), POLLIN, 0};
  if (::poll(&wait, 1, 0) > 0) return std::nullopt;
  return service;
}

std::string service_elsewhere() {
  if (!service_locked() || service_process()) return "";
  const auto facts = lock_facts();
  return facts && facts->host != host_name() ? facts->host : "";
}

void refuse_elsewhere() {
  const std::string host = service_elsewhere();
  if (host.empty()) return;
  fail(
      "the adaptdl service of host {} uses {}. Run the command there, or set ADAPTDL_LOCAL_STATE "
      "to "
      "a folder of this machine's own.",
      host, local_paths().folder);
}

bool service_locked() {
  const Fd lock(::open(local_paths().lock.c_str(), O_RDWR | O_CLOEXEC));
  return lock && ::flock(lock.get(), LOCK_SH | LOCK_NB) != 0;
}

nlohmann::json request_service(nlohmann::json request, Seconds timeout) {
  const std::string socket = live_socket();
  if (socket.empty()) fail_unreachable();
  request["protocol"] = kProtocol;
  request["until"] = monotonic_now_s() + timeout.count();
  return launch::request_at(socket, request, timeout, "the adaptdl service");
}

std::unique_ptr<JobStore> open_store() {
  const std::string path = local_paths().database;
  if (!path_exists(path)) return nullptr;
  return std::make_unique<JobStore>(path, Database::Mode::read);
}

std::optional<nlohmann::json> runner_status(const std::string& job, Seconds timeout) {
  const std::string socket = JobFolder{local_paths().job(job)}.control_socket();
  try {
    if (!try_connect_unix(socket)) return std::nullopt;
    return launch::request_at(socket, {{"request", "status"}}, timeout, "job " + job);
  } catch (const Error&) {  // the runner is just ending, or is stopped
    return std::nullopt;
  }
}

}  // namespace adaptdl::local
