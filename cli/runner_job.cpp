#include "cli/runner_job.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/system.h"
#include "core/launch/slots.h"

namespace adaptdl::cli {
namespace {

constexpr int kFormat = 1;

JobSpec::Kind kind_of(const std::string& text, const std::string& where) {
  for (const auto kind :
       {JobSpec::Kind::archive, JobSpec::Kind::executable, JobSpec::Kind::command}) {
    if (text == job_kind_name(kind)) return kind;
  }
  fail("{}: kind: {} is not archive, executable or command", where, text);
}

launch::ReplicaBounds bounds(const RunnerJob& job, const std::vector<int>& slots) {
  const int room = static_cast<int>(slots.size()) / job.slots_per_replica;
  if (room < 1) {
    throw UsageError(fmt::format("--slots: {} cannot hold one replica, which takes {}",
                                 slots.size(), job.slots_per_replica));
  }
  const int initial = std::min(room, job.max_replicas);
  return {std::min(job.min_replicas, initial), initial, job.max_replicas};
}

// A replica's share of the cores that go with the GPUs.
int threads_beside_gpus(const RunnerJob& job) {
  if (!job.on_gpus) return 0;
  const int all = std::max(1, static_cast<int>(gpus().size()));
  return std::max(1, available_cores() * job.slots_per_replica / all);
}

}  // namespace

RunnerJob runner_job_from_json(const Json& json, const std::string& where) {
  if (json_get<int>(json, "format", where) > kFormat) {
    fail("{}: written by a newer adaptdl; run it with that one", where);
  }
  RunnerJob job;
  job.name = json_get<std::string>(json, "name", where);
  job.job_namespace = json_get_or(json, "namespace", where, job.job_namespace);
  job.kind = kind_of(json_get<std::string>(json, "kind", where), where);
  job.program = json_get<std::string>(json, "program", where);
  job.arguments = json_get_or(json, "arguments", where, job.arguments);
  job.directory = json_get<std::string>(json, "directory", where);
  job.settings = json_get_or(json, "settings", where, job.settings);
  const Json variables = json_get_or<Json>(json, "environment", where, Json::object());
  if (!variables.is_object()) fail("{}: environment: has to be a record", where);
  for (const auto& [key, value] : variables.items()) {
    job.environment[key] = json_get<std::string>(variables, key, where + ": environment");
  }
  job.max_replicas = std::clamp(json_get_or(json, "max_replicas", where, job.max_replicas), 1,
                                launch::kMaxReplicas);
  job.min_replicas =
      std::clamp(json_get_or(json, "min_replicas", where, job.min_replicas), 1, job.max_replicas);
  const auto slot_kind = json_get_or<std::string>(json, "slot_kind", where, "core");
  if (slot_kind != "core" && slot_kind != "gpu" && slot_kind != "shared") {
    fail("{}: slot_kind: {} is neither core, gpu nor shared", where, slot_kind);
  }
  job.on_gpus = slot_kind == "gpu";
  job.bound = slot_kind != "shared";
  job.slots_per_replica = json_get_or(json, "slots_per_replica", where, job.slots_per_replica);
  if (job.slots_per_replica < 1) fail("{}: slots_per_replica: has to be 1 or more", where);
  job.tensorboard = json_get_or(json, "tensorboard", where, job.tensorboard);
  job.grace_s = json_get_or(json, "grace_s", where, job.grace_s);
  job.hang_timeout_s = json_get_or(json, "hang_timeout_s", where, job.hang_timeout_s);
  job.retries = json_get_or(json, "retries", where, job.retries);
  if (job.grace_s < 0 || job.hang_timeout_s < 0 || job.retries < 0) {
    fail("{}: grace_s, hang_timeout_s and retries have to be 0 or more", where);
  }
  return job;
}

launch::CommandOptions command_options(const RunnerJob& job, const std::string& folder,
                                       const std::vector<int>& slots,
                                       const std::string& supervisor) {
  launch::CommandOptions options;
  options.name = job.name;
  options.job_namespace = job.job_namespace;
  options.program = job.program;
  options.arguments = job.arguments;
  options.directory = job.directory;
  options.environment = job.environment;
  options.replicas = bounds(job, slots);
  options.slots = slots;
  options.bound = job.bound;
  options.slots_per_replica = job.slots_per_replica;
  options.gpus = job.on_gpus ? static_cast<int>(gpus().size()) : 0;
  if (job.on_gpus) launch::check_gpus(slots, options.gpus);
  options.threads = threads_beside_gpus(job);
  options.supervisor_url = supervisor;
  while (options.supervisor_url.ends_with("/")) options.supervisor_url.pop_back();
  options.tensorboard_dir = job.tensorboard;
  options.max_failures = job.retries;
  options.grace_s = job.grace_s;
  options.checkpoint_dir = join_path(folder, "checkpoints");
  options.share_dir = join_path(folder, "share");
  options.log_dir = join_path(folder, "logs");
  options.control_socket = join_path(folder, "control.sock");
  options.record_file = join_path(folder, "run.json");
  options.replicas_file = join_path(folder, "replicas.json");
  return options;
}

launch::RunOptions training_options(const RunnerJob& job, const std::string& folder,
                                    const std::vector<int>& slots) {
  launch::RunOptions options;
  options.name = job.name;
  options.program = absolute_path(job.program, job.directory);
  options.arguments = job.arguments;
  options.settings = job.settings;
  options.replicas = bounds(job, slots);
  options.slots = slots;
  options.bound = job.bound;
  options.slots_per_replica = job.slots_per_replica;
  options.gpus = job.on_gpus ? static_cast<int>(gpus().size()) : 0;
  if (job.on_gpus) launch::check_gpus(slots, options.gpus);
  options.threads = threads_beside_gpus(job);
  options.max_restarts = job.retries;
  options.grace_s = job.grace_s;
  options.hang_timeout_s = job.hang_timeout_s;
  options.checkpoint_dir = join_path(folder, "checkpoints");
  options.output_dir = join_path(folder, "output");
  options.log_dir = join_path(folder, "logs");
  options.control_socket = join_path(folder, "control.sock");
  options.record_file = join_path(folder, "run.json");
  return options;
}

std::vector<int> parse_slots(const std::string& text) {
  std::vector<int> slots;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const auto slot = try_parse<int>(std::string_view(text).substr(begin, end - begin));
    if (!slot) {
      throw UsageError(fmt::format("--slots: \"{}\" is not a list of numbers as 0,3", text));
    }
    slots.push_back(*slot);
    begin = end + 1;
  }
  launch::check_slots(slots, 1, 1);
  return slots;
}

}  // namespace adaptdl::cli
