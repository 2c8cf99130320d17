#include "core/sched/policy_input.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "core/base/error.h"
#include "core/policy/feasibility.h"

namespace adaptdl {
namespace {

// Of several accelerators the greatest is counted. Whole GPUs go before all others, which may be
// slices of some of them; of the others those that jobs request, since a device plugin may offer
// the same devices in several units.
std::tuple<bool, bool, int64_t> importance(const std::string& name, int64_t amount,
                                           const std::vector<ClusterJob>& jobs) {
  const bool whole = name.find("gpu") != std::string::npos;
  const bool wanted = !whole && std::ranges::any_of(jobs, [&](const ClusterJob& job) {
    const auto found = job.request.find(name);
    return found != job.request.end() && found->second > 0;
  });
  return {whole, wanted, amount};
}

// First the resource that policies count, then the others by name.
std::vector<std::string> resource_names(const std::vector<ClusterNode>& nodes,
                                        const std::vector<ClusterJob>& jobs) {
  Resources total;
  for (const ClusterJob& job : jobs) {
    for (const auto& [name, amount] : job.request) total[name] += 0;
  }
  for (const ClusterNode& node : nodes) {
    for (const auto& [name, amount] : node.free_for_jobs) total[name] += amount;
  }
  std::string first = "cpu";
  std::tuple<bool, bool, int64_t> most;
  for (const auto& [name, amount] : total) {
    if (amount <= 0 || !is_accelerator(name)) continue;
    const auto here = importance(name, amount, jobs);
    if (here > most) first = name, most = here;
  }
  std::vector<std::string> names = {first};
  for (const auto& [name, amount] : total) {
    if (name != first) names.push_back(name);
  }
  return names;
}

std::vector<int64_t> amounts(const Resources& resources, const std::vector<std::string>& names) {
  std::vector<int64_t> result;
  for (const std::string& name : names) {
    const auto found = resources.find(name);
    result.push_back(found == resources.end() ? 0 : found->second);
  }
  return result;
}

JobSnapshot view_of(const ClusterJob& job, double now_s) {
  JobSnapshot view;
  view.name = job.name;
  view.age_s = std::max(0.0, now_s - job.submitted_s);
  view.attained_service = job.attained_service;
  view.restarts = job.restarts;
  view.min_replicas = job.min_replicas;
  view.max_replicas = job.max_replicas;
  view.requested_replicas = job.requested_replicas;
  view.requested_batch = job.requested_batch;
  view.preemptible = job.preemptible;
  view.settling = job.settling;
  view.restartable = job.restartable;
  view.length_rank = job.length_rank;
  view.hints = job.hints;
  return view;
}

// Adds the jobs to a snapshot that has its nodes.
class JobsTaker {
 public:
  JobsTaker(Snapshot& snapshot, std::vector<std::string>& problems)
      : snapshot_(snapshot), problems_(problems) {
    for (size_t n = 0; n < snapshot.nodes.size(); ++n) {
      index_[snapshot.nodes[n].name] = static_cast<int>(n);
      left_.push_back(snapshot.nodes[n].capacity);
    }
  }

  void take(const ClusterJob& job, double now_s) {
    JobSnapshot view = view_of(job, now_s);
    view.request = amounts(job.request, snapshot_.resources);
    view.nodes = nodes_of(job);
    try {
      check_hints(view.hints, view.name);
    } catch (const Error& error) {
      problems_.push_back(fmt::format("{}; the scheduler ignores its hints", error.what()));
      view.hints = {};
    }
    try {
      if (!names_.insert(job.name).second) fail("two jobs are called {}", job.name);
      check_job(snapshot_, view);
      if (!view.preemptible && !view.nodes.empty()) keep(view);
      snapshot_.jobs.push_back(std::move(view));
    } catch (const Error& error) {
      problems_.push_back(fmt::format("{}; it keeps its allocation", error.what()));
      leave_out(view);
    }
  }

 private:
  NodeList nodes_of(const ClusterJob& job) const {
    NodeList nodes;
    for (const std::string& node : job.nodes) {
      if (const auto found = index_.find(node); found != index_.end()) {
        nodes.push_back(found->second);
      }
    }
    // If nodes are missing, the job has no allocation and gets new nodes, unless its other replicas
    // continue.
    const bool goes_on = job.anchored && job.preemptible && !job.nodes.empty() &&
                         index_.contains(job.nodes.front()) &&
                         nodes.size() >= static_cast<size_t>(std::max(1, job.min_replicas));
    if (nodes.size() != job.nodes.size() && !goes_on) nodes.clear();
    return nodes;
  }

  // The allocation of a job that is not preemptible must be feasible in the snapshot.
  void keep(const JobSnapshot& job) {
    if (const auto broken = broken_by_job(snapshot_, job, job.nodes)) fail("{}", *broken);
    for (const int node : job.nodes) {
      const auto n = static_cast<size_t>(node);
      const int64_t count = std::count(job.nodes.begin(), job.nodes.end(), node);
      for (size_t r = 0; r < job.request.size(); ++r) {
        if (count * job.request[r] <= left_[n][r]) continue;
        fail("job {}: node {} has too little for its replicas there: {}", job.name,
             snapshot_.nodes[n].name, snapshot_.resources[r]);
      }
    }
    for (const int node : job.nodes) take(job, static_cast<size_t>(node));
  }

  void leave_out(const JobSnapshot& job) {
    for (const int node : job.nodes) {
      const auto n = static_cast<size_t>(node);
      const std::vector<int64_t> before = left_[n];
      take(job, n);
      for (size_t r = 0; r < before.size(); ++r) {
        snapshot_.nodes[n].capacity[r] -= before[r] - left_[n][r];
      }
    }
  }

  // Takes one replica's request, or as much as is left.
  void take(const JobSnapshot& job, size_t node) {
    for (size_t r = 0; r < job.request.size(); ++r) {
      int64_t& left = left_[node][r];
      left -= std::clamp<int64_t>(job.request[r], 0, left);
    }
  }

  Snapshot& snapshot_;
  std::vector<std::string>& problems_;
  std::unordered_map<std::string, int> index_;
  std::unordered_set<std::string> names_;
  std::vector<std::vector<int64_t>> left_;  // by node and resource, without jobs that keep theirs
};

}  // namespace

Snapshot policy_input(const std::vector<ClusterNode>& nodes, const std::vector<ClusterJob>& jobs,
                      double now_s, std::vector<std::string>& problems) {
  Snapshot snapshot;
  snapshot.resources = resource_names(nodes, jobs);
  for (const ClusterNode& node : nodes) {
    snapshot.nodes.push_back(
        {node.name, node.accelerator, amounts(node.free_for_jobs, snapshot.resources)});
  }
  JobsTaker taker(snapshot, problems);
  for (const ClusterJob& job : jobs) taker.take(job, now_s);
  return snapshot;
}

}  // namespace adaptdl
