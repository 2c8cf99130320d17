#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/sim/sim_cluster.h"
#include "tests/unit/sim/sample_profile.h"

namespace adaptdl {

inline WorkloadJob sample_job(const std::string& name, double submitted_s) {
  WorkloadJob job;
  job.name = name;
  job.submitted_s = submitted_s;
  job.application = "sample";
  job.batch_size = 20;
  return job;
}

inline const std::map<std::string, Profile>& sample_profiles() {
  static const std::map<std::string, Profile> profiles = {{"sample", Profile(sample_profile())}};
  return profiles;
}

// Two nodes of two GPUs; keeps the events.
class SampleCluster : public SimCluster {
 public:
  explicit SampleCluster(const std::vector<WorkloadJob>& workload,
                         const SimClusterOptions& options = {},
                         const std::map<std::string, Profile>& profiles = sample_profiles())
      : SimCluster({{"node-0", "", {{"gpu", 2}}}, {"node-1", "", {{"gpu", 2}}}}, workload, profiles,
                   options) {
    on_event = [this](const TimelineEvent& event) { events.push_back(event); };
  }

  std::vector<TimelineEvent::Kind> kinds() const {
    std::vector<TimelineEvent::Kind> result;
    for (const TimelineEvent& event : events) result.push_back(event.kind);
    return result;
  }

  std::vector<TimelineEvent> events;
};

}  // namespace adaptdl
