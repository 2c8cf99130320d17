#include "core/sim/baselines/published_policy.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/policy/feasibility.h"

namespace adaptdl {
namespace {

bool keeps_nodes(const JobSnapshot& job, int wanted) {
  return pinned(job) || (wanted > 0 && static_cast<int>(job.nodes.size()) == wanted);
}

NodeList take_from_emptiest(FreeResources& free, const Snapshot& snapshot, int job, int64_t count) {
  NodeList nodes;
  while (count > 0) {
    int best = 0;
    for (int node = 1; node < static_cast<int>(snapshot.nodes.size()); ++node) {
      if (free.fits(job, node) > free.fits(job, best)) best = node;
    }
    const int64_t here = std::min(free.fits(job, best), count);
    if (here == 0) {
      free.release(job, nodes);
      return {};
    }
    free.take(job, best, here);
    nodes.insert(nodes.end(), static_cast<size_t>(here), best);
    count -= here;
  }
  return nodes;
}

}  // namespace

bool pinned(const JobSnapshot& job) {
  return (!job.preemptible || job.settling) && !job.nodes.empty();
}

void check_published(const Snapshot& snapshot, const char* policy) {
  check_snapshot(snapshot);
  const NodeSnapshot* first = nullptr;
  for (const NodeSnapshot& node : snapshot.nodes) {
    if (node.capacity[0] == 0) continue;
    if (first == nullptr) first = &node;
    if (node.accelerator == first->accelerator) continue;
    fail("{}: nodes have GPUs of kind '{}' and '{}'; this policy supports one kind only", policy,
         first->accelerator, node.accelerator);
  }
  for (const JobSnapshot& job : snapshot.jobs) {
    if (job.request[0] == 1) continue;
    fail("{}: a replica of job {} requests {} of {}; this policy supports 1 only", policy, job.name,
         job.request[0], snapshot.resources[0]);
  }
}

int64_t total_gpus(const Snapshot& snapshot) {
  return std::accumulate(snapshot.nodes.begin(), snapshot.nodes.end(), int64_t{0},
                         [](int64_t sum, const auto& node) { return sum + node.capacity[0]; });
}

std::vector<NodeList> place_on_emptiest(const Snapshot& snapshot, const std::vector<int>& wanted,
                                        const std::vector<int>& order) {
  FreeResources free(snapshot);
  std::vector<NodeList> result(snapshot.jobs.size());
  for (size_t j = 0; j < snapshot.jobs.size(); ++j) {
    if (!keeps_nodes(snapshot.jobs[j], wanted[j])) continue;
    result[j] = snapshot.jobs[j].nodes;
    free.take(static_cast<int>(j), result[j]);
  }
  if (snapshot.nodes.empty()) return result;
  for (const int job : order) {
    const auto j = static_cast<size_t>(job);
    if (keeps_nodes(snapshot.jobs[j], wanted[j])) continue;
    result[j] = take_from_emptiest(free, snapshot, job, wanted[j]);
  }
  return result;
}

}  // namespace adaptdl
