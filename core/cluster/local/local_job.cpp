#include "core/cluster/local/local_job.h"

#include <chrono>

#include "core/base/files.h"

namespace adaptdl::local {

JobFacts facts_of(const LocalJob& job) {
  JobFacts facts;
  facts.allocated = job.state.cancelled ? 0 : job.state.wanted;
  facts.present = job.state.live ? std::max({1, job.present, job.training}) : 0;
  facts.training = job.state.live ? job.training : 0;
  return facts;
}

std::string phase_text(const LocalJob& job) {
  if (job.record.suspended && !job.state.live) return "Suspended";
  return std::string(phase_name(phase_of(facts_of(job))));
}

nlohmann::json runner_file(const LocalJob& job, const std::string& folder,
                           const std::string& slot_kind, const std::string& tensorboard_folder) {
  const JobSpec& spec = job.spec;
  const std::string project = join_path(folder, "project");
  const std::string directory = join_path(is_directory(project) ? project : folder, spec.directory);
  const bool is_path =
      spec.kind != JobSpec::Kind::command || spec.program.find('/') != std::string::npos;
  return {{"format", 1},
          {"name", job.record.name},
          {"namespace", "default"},
          {"kind", job_kind_name(spec.kind)},
          {"program", is_path ? join_path(directory, spec.program) : spec.program},
          {"arguments", spec.arguments},
          {"directory", directory},
          {"settings", spec.settings},
          {"environment", spec.environment},
          {"min_replicas", job.record.min_replicas},
          {"max_replicas", job.record.max_replicas},
          {"slot_kind", slot_kind},
          {"slots_per_replica", job.state.slots_per_replica},
          {"retries", spec.retries},
          {"tensorboard", spec.tensorboard.empty()
                              ? nlohmann::json(nullptr)
                              : nlohmann::json(join_path(tensorboard_folder, spec.tensorboard))},
          {"grace_s", spec.grace_s}};
}

}  // namespace adaptdl::local
