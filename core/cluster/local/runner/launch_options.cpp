#include "core/cluster/local/runner/launch_options.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"
#include "core/base/system.h"
#include "core/base/text.h"
#include "core/launch/slots.h"

namespace adaptdl::local {
namespace {

launch::ReplicaBounds bounds(const Grant& grant, const std::vector<int>& slots) {
  const int room = static_cast<int>(slots.size()) / grant.slots_per_replica;
  if (room < 1) {
    throw UsageError(fmt::format("--slots: {} slots are too few: one replica needs {}",
                                 slots.size(), grant.slots_per_replica));
  }
  const int initial = std::min(room, grant.max_replicas);
  return {std::min(grant.min_replicas, initial), initial, grant.max_replicas};
}

// A replica's share of the cores that go with the GPUs.
int threads_beside_gpus(const Grant& grant, int gpu_count) {
  return std::max(1, available_cores() * grant.slots_per_replica / std::max(1, gpu_count));
}

// The options that both kinds have, under the same names.
template <typename Options>
Options options_of(const GrantedJob& job, const JobFolder& folder, const std::vector<int>& slots) {
  const Grant& grant = job.grant;
  Options options;
  options.name = grant.name;
  options.arguments = job.spec.arguments;
  options.replicas = bounds(grant, slots);
  options.slots = slots;
  options.bound = grant.bound();
  options.slots_per_replica = grant.slots_per_replica;
  options.accelerators = grant.accelerators;
  if (grant.on_gpus()) {
    options.gpus = static_cast<int>(gpus().size());
    launch::check_gpus(slots, options.gpus);
    options.threads = threads_beside_gpus(grant, options.gpus);
  }
  options.grace_s = job.spec.grace_s;
  options.checkpoint_dir = folder.checkpoints();
  options.log_dir = folder.logs();
  options.control_socket = folder.control_socket();
  options.record_file = folder.run_record();
  return options;
}

}  // namespace

launch::CommandOptions command_options(const GrantedJob& job, const JobFolder& folder,
                                       const std::vector<int>& slots,
                                       const std::string& supervisor) {
  auto options = options_of<launch::CommandOptions>(job, folder, slots);
  options.job_namespace = job.grant.job_namespace;
  const std::string& program = job.spec.program;
  const bool is_path = program.find('/') != std::string::npos;
  options.program = is_path ? join_path(job.grant.directory, program) : program;
  options.directory = job.grant.directory;
  options.environment = job.spec.environment;
  options.supervisor_url = supervisor;
  while (options.supervisor_url.ends_with("/")) options.supervisor_url.pop_back();
  options.tensorboard_dir = job.grant.tensorboard;
  options.max_failures = job.spec.retries;
  options.share_dir = folder.share();
  options.replicas_file = folder.replicas_file();
  options.throws_disk_full = true;
  return options;
}

launch::RunOptions training_options(const GrantedJob& job, const JobFolder& folder,
                                    const std::vector<int>& slots) {
  auto options = options_of<launch::RunOptions>(job, folder, slots);
  options.program = absolute_path(job.spec.program, job.grant.directory);
  options.settings = job.spec.settings;
  options.max_restarts = job.spec.retries;
  options.output_dir = folder.output();
  return options;
}

std::vector<int> parse_slots(const std::string& text) {
  std::vector<int> slots;
  for (const std::string& part : split(text, ',')) {
    const auto slot = try_parse<int>(part);
    if (!slot) {
      throw UsageError(fmt::format("--slots: \"{}\" is not a list of numbers such as 0,3", text));
    }
    slots.push_back(*slot);
  }
  launch::check_slots(slots, 1, 1);
  return slots;
}

}  // namespace adaptdl::local
