#include "core/sim/fairness.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/sim/sim_job.h"

namespace adaptdl {

namespace {

struct KindOfGpus {
  int gpus = 0, per_node = 1;  // of all nodes, of the largest one
};

std::map<std::string, KindOfGpus> kinds_of(const std::vector<ClusterNode>& nodes) {
  std::map<std::string, KindOfGpus> kinds;
  for (const ClusterNode& node : nodes) {
    const auto found = node.free_for_jobs.find("gpu");
    const int gpus = found == node.free_for_jobs.end() ? 0 : static_cast<int>(found->second);
    if (gpus == 0) continue;
    KindOfGpus& kind = kinds[node.accelerator];
    kind.gpus += gpus;
    kind.per_node = std::max(kind.per_node, gpus);
  }
  return kinds;
}

}  // namespace

double time_alone(const Profile& profile, const std::string& kind, double gpus, int gpus_per_node,
                  double rescale_s) {
  ADAPTDL_CHECK(gpus > 0 && gpus_per_node > 0);
  const double most = std::min<double>(profile.max_replicas(), std::max(1.0, std::floor(gpus)));
  std::vector<int> nodes;
  for (int rank = 0; rank < static_cast<int>(most); ++rank) nodes.push_back(rank / gpus_per_node);
  SimJob job(profile, 0);
  job.place(nodes, rescale_s, 0, profile.measured_kind(kind));
  while (!job.finished()) job.advance(60, 0);
  return job.finished_after() / std::min(gpus, 1.0);
}

void add_fairness(std::vector<JobResult>& jobs, const std::map<std::string, Profile>& profiles,
                  const std::vector<ClusterNode>& nodes, double rescale_s) {
  const auto kinds = kinds_of(nodes);
  int total = 0;
  for (const auto& [name, kind] : kinds) total += kind.gpus;
  std::map<std::pair<std::string, double>, double> known;
  // On a share of that many whole GPUs; those of a kind on which it does not run do not count.
  const auto alone = [&](const std::string& application, double gpus) {
    const auto [found, is_new] = known.try_emplace({application, gpus});
    if (!is_new) return found->second;
    const Profile& profile = profiles.at(application);
    const double cost = rescale_s >= 0 ? rescale_s : profile.rescale_s().value_or(1);
    double sum = 0, weight = 0;
    for (const auto& [name, kind] : kinds) {
      if (!profile.runs_on(name)) continue;
      sum += kind.gpus * time_alone(profile, name, gpus, kind.per_node, cost);
      weight += kind.gpus;
    }
    return found->second = sum / weight;
  };
  for (JobResult& job : jobs) {
    if (job.jct_s <= 0) continue;
    double present_s = 0;  // of all jobs, while this one was there
    for (const JobResult& other : jobs) {
      const double end = other.jct_s < 0 ? job.completed_s : other.completed_s;
      present_s += std::max(
          0.0, std::min(end, job.completed_s) - std::max(other.submitted_s, job.submitted_s));
    }
    const double share = total / std::max(1.0, present_s / job.jct_s);
    const double whole = std::max(1.0, std::floor(share));
    job.fairness = job.jct_s / (alone(job.application, whole) / std::min(share, 1.0));
  }
}

}  // namespace adaptdl
