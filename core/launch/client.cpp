#include "core/launch/client.h"

#include <algorithm>
#include <map>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/poll.h"
#include "core/formats/json.h"
#include "core/launch/io/control.h"
#include "core/launch/paths.h"
#include "core/net/socket.h"

namespace adaptdl::launch {

namespace {

constexpr size_t kMaxAnswer = 1u << 20;
constexpr size_t kMaxRunRecord = 4u << 20;

// The names of files in `folder` with this suffix, without it.
std::vector<std::string> stems(const std::string& folder, const std::string& suffix) {
  std::vector<std::string> result;
  if (!is_directory(folder)) return result;
  for (const std::string& name : list_directory(folder)) {
    if (name.size() > suffix.size() && name.ends_with(suffix) && name.front() != '.') {
      result.push_back(name.substr(0, name.size() - suffix.size()));
    }
  }
  return result;
}

bool is_socket(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode);
}

// Nobody listened at `path` a moment ago, but a new run may have created the socket again since.
void remove_stale(const std::string& path) {
  const std::optional<Fd> lock = lock_control_socket(path);
  if (lock && is_socket(path) && !try_connect_unix(path)) ::unlink(path.c_str());
}

nlohmann::json exchange(Fd socket, const nlohmann::json& request, const std::string& who,
                        Seconds timeout) {
  const TimePoint deadline =
      Monotonic::now() + std::chrono::duration_cast<Monotonic::duration>(timeout);
  set_nonblocking(socket.get());
  if (!send_all(socket.get(), dump_json(request) + "\n", deadline)) {
    fail("cannot send the request to {}", who);
  }
  std::string answer;
  std::byte chunk[4096];
  while (answer.find('\n') == std::string::npos) {
    if (answer.size() > kMaxAnswer) fail("the answer of {} is too long", who);
    if (!wait_ready(socket.get(), POLLIN, deadline)) {
      fail("{} does not answer within {} s; is it stopped?", who, timeout.count());
    }
    const std::optional<size_t> got = recv_some(socket.get(), chunk);
    if (got && *got == 0) fail("{} ended before it answered", who);
    if (got) answer.append(reinterpret_cast<const char*>(chunk), *got);
  }
  return parse_json(answer.substr(0, answer.find('\n')), "answer of " + who);
}

nlohmann::json checked(nlohmann::json answer, const std::string& who) {
  if (json_get_or<bool>(answer, "ok", who, false)) return answer;
  fail("{}: {}", who, json_get_or<std::string>(answer, "error", who, "refused"));
}

}  // namespace

std::vector<std::string> live_run_names() {
  std::vector<std::string> names = stems(sockets_directory(), ".sock");
  std::erase_if(names, [](const std::string& name) { return !is_live(name); });
  return names;
}

bool is_live(const std::string& name) {
  try {
    return try_connect_unix(run_paths(name).socket).has_value();
  } catch (const Error&) {  // the socket exists, but is unreachable
    return true;
  }
}

nlohmann::json read_record(const std::string& name) {
  const std::string path = run_paths(name).record;
  if (!path_exists(path)) return nullptr;
  return parse_json(read_file(path, kMaxRunRecord), path);
}

std::vector<RunInfo> list_runs(Seconds timeout) {
  std::map<std::string, RunInfo> runs;
  for (const std::string& name : stems(records_directory(), ".json")) {
    try {
      const nlohmann::json record = read_record(name);
      if (record.is_object()) runs[name] = {name, false, record};
    } catch (const Error&) {  // ignore a foreign or damaged file
    }
  }
  for (const std::string& name : stems(sockets_directory(), ".sock")) {
    const std::string path = join_path(sockets_directory(), name + ".sock");
    RunInfo& run = runs[name];
    run.name = name;
    try {
      std::optional<Fd> socket = try_connect_unix(path);
      run.live = socket.has_value();
      if (socket) {
        run.status = nullptr;
        run.status = exchange(std::move(*socket), {{"request", "status"}}, "run " + name, timeout);
      } else {
        remove_stale(path);
      }
    } catch (const Error&) {  // it is ending, or is stopped
    }
  }
  std::vector<RunInfo> result;
  for (auto& [name, run] : runs) {
    if (run.live || run.status.is_object()) result.push_back(std::move(run));
  }
  return result;
}

nlohmann::json request(const std::string& name, const nlohmann::json& request, Seconds timeout) {
  std::optional<Fd> socket = try_connect_unix(run_paths(name).socket);
  if (!socket) {
    const std::vector<std::string> live = live_run_names();
    const std::string others =
        live.empty() ? "No run is live" : fmt::format("Live runs: {}", fmt::join(live, ", "));
    if (!path_exists(run_paths(name).record)) fail("run {} not found. {}", name, others);
    fail("run {} has ended (`adaptdl ls --all` shows how). {}", name, others);
  }
  const std::string who = "run " + name;
  return checked(exchange(std::move(*socket), request, who, timeout), who);
}

nlohmann::json request_at(const std::string& path, const nlohmann::json& request, Seconds timeout,
                          const std::string& who) {
  return checked(exchange(connect_unix(path), request, who, timeout), who);
}

}  // namespace adaptdl::launch
