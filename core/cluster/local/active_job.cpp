#include "core/cluster/local/active_job.h"

#include <algorithm>
#include <utility>

#include "core/base/files.h"
#include "core/cluster/local/runner/granted_job.h"

namespace adaptdl::local {

JobFacts facts_of(const ActiveJob& job) {
  JobFacts facts;
  facts.allocated = job.state.cancelled ? 0 : job.state.wanted;
  facts.present = job.state.live ? std::max({1, job.present, job.training}) : 0;
  facts.training = job.state.live ? job.training : 0;
  return facts;
}

std::string phase_text(const ActiveJob& job) {
  if (job.record.suspended && !job.state.live) return "Suspended";
  return std::string(phase_name(phase_of(facts_of(job))));
}

void count_service(ActiveJob& job, size_t slots_held) {
  const TimePoint now = Monotonic::now();
  if (job.state.live) {
    job.record.service_s += static_cast<double>(slots_held) * seconds_between(job.counted, now);
  }
  job.counted = now;
}

bool note_shortage(ActiveJob& job, const Machine& machine) {
  const std::string problem = shortage(machine, job.spec, job.record.min_replicas);
  if (problem.empty() && job.record.reason != kUnschedulable) return false;
  job.record.reason = problem.empty() ? "" : kUnschedulable;
  return std::exchange(job.record.message, problem) != problem;
}

int most_replicas(const ActiveJob& job, const Machine& machine) {
  const int most = machine.most_slots(job.spec);
  return std::max({1, job.record.min_replicas,
                   (most > 0 ? most : machine.slots) / job.state.slots_per_replica});
}

void write_job_file(const ActiveJob& job, const LocalPaths& paths, const Machine& machine,
                    bool has_project) {
  const JobFolder folder{paths.job(job.record.name)};
  Grant grant;
  grant.name = job.record.name;
  grant.directory = join_path(has_project ? folder.project() : folder.path, job.spec.directory);
  grant.min_replicas = job.record.min_replicas;
  grant.max_replicas = job.record.max_replicas;
  grant.slot_kind = machine.slot_kind();
  grant.slots_per_replica = job.state.slots_per_replica;
  for (size_t slot = 0; slot < machine.slot_kinds.size(); ++slot) {
    grant.accelerators[machine.slot_number(static_cast<int>(slot))] =
        machine.kinds[static_cast<size_t>(machine.slot_kinds[slot])];
  }
  const std::string& instance = job.spec.tensorboard;
  if (!instance.empty()) grant.tensorboard = paths.tensorboard(instance);
  const std::string path = folder.job_file(), text = job_file_text(job.record.spec, grant);
  if (!path_exists(path)) {
    make_directories(folder.path, 0700);
    replace_file(path, text, 0600);
  } else if (read_file(path, std::max<size_t>(text.size(), file_size(path))) != text) {
    write_file_atomic(path, text, 0600);
  }
}

}  // namespace adaptdl::local
