#include "core/sim/fairness.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/sim/sim_job.h"

namespace adaptdl {

double time_alone(const Profile& profile, double gpus, int gpus_per_node, double rescale_s) {
  ADAPTDL_CHECK(gpus > 0 && gpus_per_node > 0);
  const double most = std::min<double>(profile.max_replicas(), std::max(1.0, std::floor(gpus)));
  auto left = static_cast<int>(most);
  std::vector<int> placement;
  for (; left > 0; left -= placement.back()) placement.push_back(std::min(left, gpus_per_node));
  SimJob job(profile, 0);
  job.place(placement, rescale_s);
  while (!job.finished()) job.advance(60, 0);
  return job.finished_after() / std::min(gpus, 1.0);
}

void add_fairness(std::vector<JobResult>& jobs, const std::map<std::string, Profile>& profiles,
                  int total_gpus, int gpus_per_node, double rescale_s) {
  std::map<std::pair<std::string, double>, double> known;
  for (JobResult& job : jobs) {
    if (job.jct_s <= 0) continue;
    double present_s = 0;  // of all jobs, while this one was there
    for (const JobResult& other : jobs) {
      const double end = other.jct_s < 0 ? job.completed_s : other.completed_s;
      present_s += std::max(
          0.0, std::min(end, job.completed_s) - std::max(other.submitted_s, job.submitted_s));
    }
    const double share = total_gpus / std::max(1.0, present_s / job.jct_s);
    const double whole = std::max(1.0, std::floor(share));
    double& alone = known[{job.application, whole}];
    if (alone == 0) {
      alone = time_alone(profiles.at(job.application), whole, gpus_per_node, rescale_s);
    }
    job.fairness = job.jct_s / (alone / std::min(share, 1.0));
  }
}

}  // namespace adaptdl
