#include "adaptdl/env.h"

#include <limits>
#include <mutex>

#include "core/base/number.h"
#include "core/base/system.h"
#include "runtime/session/present_run.h"

namespace adaptdl {
namespace {

std::mutex present_mutex;
std::optional<PresentRun> present_run;

std::optional<PresentRun> present() {
  const std::lock_guard lock(present_mutex);
  return present_run;
}

std::optional<std::string> unless_empty(const std::string& value) {
  return value.empty() ? std::nullopt : std::optional(value);
}

int64_t number(const char* name, int64_t otherwise, int64_t low,
               int64_t high = std::numeric_limits<int>::max()) {
  const auto value = environment_variable(name);
  return value ? parse_int(*value, name, low, high) : otherwise;
}

}  // namespace

void set_present_run(const PresentRun& run) {
  const std::lock_guard lock(present_mutex);
  present_run = run;
}

namespace env {

std::optional<std::string> checkpoint_path() {
  const auto run = present();
  return run ? unless_empty(run->checkpoint_path) : environment_variable("ADAPTDL_CHECKPOINT_PATH");
}
std::optional<std::string> share_path() {
  return environment_variable("ADAPTDL_SHARE_PATH");
}
std::optional<std::string> job_id() {
  const auto run = present();
  return run ? unless_empty(run->job_id) : environment_variable("ADAPTDL_JOB_ID");
}
std::optional<std::string> supervisor_url() {
  return environment_variable("ADAPTDL_SUPERVISOR_URL");
}
std::optional<std::string> scheduler_version() {
  return environment_variable("ADAPTDL_SCHED_VERSION");
}
std::string master_addr() {
  return environment_variable("ADAPTDL_MASTER_ADDR").value_or("0.0.0.0");
}
int master_port() {
  return static_cast<int>(number("ADAPTDL_MASTER_PORT", 0, 0, 65535));
}
int replica_rank() {
  const auto run = present();
  return run ? run->rank : static_cast<int>(number("ADAPTDL_REPLICA_RANK", 0, 0));
}
int num_replicas() {
  const auto run = present();
  return run ? run->replicas : static_cast<int>(number("ADAPTDL_NUM_REPLICAS", 1, 1));
}
int num_nodes() {
  const auto run = present();
  return run ? run->nodes : static_cast<int>(number("ADAPTDL_NUM_NODES", num_replicas(), 1));
}
int64_t num_restarts() {
  return number("ADAPTDL_NUM_RESTARTS", 0, 0);
}

}  // namespace env
}  // namespace adaptdl
