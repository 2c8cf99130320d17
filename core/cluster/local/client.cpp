#include "core/cluster/local/client.h"

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/socket.h"
#include "core/launch/client.h"

namespace adaptdl::local {

bool service_runs() {
  return try_connect_unix(local_paths().socket).has_value();
}

nlohmann::json request_service(nlohmann::json request, Seconds timeout) {
  const std::string socket = local_paths().socket;
  if (!try_connect_unix(socket)) {
    fail(
        "no adaptdl service runs for you on this machine; `adaptdl serve` starts one, as does "
        "`adaptdl submit`.");
  }
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
  const std::string socket = join_path(local_paths().job(job), "control.sock");
  try {
    if (!try_connect_unix(socket)) return std::nullopt;
    return launch::request_at(socket, {{"request", "status"}}, timeout, "job " + job);
  } catch (const Error&) {  // it ends at this moment, or is stopped
    return std::nullopt;
  }
}

}  // namespace adaptdl::local
