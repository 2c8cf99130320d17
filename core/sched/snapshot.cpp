#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "core/base/error.h"
#include "core/sched/allocator.h"

namespace adaptdl {
namespace {

bool is_accelerator(const std::string& resource) {
  return resource.find("gpu") != std::string::npos;
}

// The resource that policies count first, then the others by name.
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
  int64_t most = 0;
  for (const auto& [name, amount] : total) {
    if (is_accelerator(name) && amount > most) first = name, most = amount;
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
  view.preemptible = job.preemptible;
  view.hints = job.hints;
  return view;
}

}  // namespace

Snapshot take_snapshot(const std::vector<ClusterNode>& nodes, const std::vector<ClusterJob>& jobs,
                       double now_s, std::vector<std::string>& problems) {
  Snapshot snapshot;
  snapshot.resources = resource_names(nodes, jobs);
  std::unordered_map<std::string_view, int> index;
  for (const ClusterNode& node : nodes) {
    index[node.name] = static_cast<int>(snapshot.nodes.size());
    snapshot.nodes.push_back(
        {node.name, node.accelerator, amounts(node.free_for_jobs, snapshot.resources)});
  }
  std::unordered_set<std::string_view> names;
  for (const ClusterJob& job : jobs) {
    JobSnapshot view = view_of(job, now_s);
    view.request = amounts(job.request, snapshot.resources);
    for (const std::string& node : job.nodes) {
      if (index.contains(node)) view.nodes.push_back(index[node]);
    }
    // Without some of its replicas it is not what was allocated: it is given nodes anew, unless the
    // others go on.
    const bool goes_on = job.anchored && job.preemptible && !job.nodes.empty() &&
                         index.contains(job.nodes.front()) &&
                         view.nodes.size() >= static_cast<size_t>(std::max(1, job.min_replicas));
    if (view.nodes.size() != job.nodes.size() && !goes_on) view.nodes.clear();
    try {
      check_hints(view.hints, view.name);
    } catch (const Error& error) {
      problems.push_back(fmt::format("{}; its hints are ignored", error.what()));
      view.hints = {};
    }
    try {
      if (!names.insert(job.name).second) fail("there is a job {} already", job.name);
      check_job(snapshot, view);
      snapshot.jobs.push_back(std::move(view));
    } catch (const Error& error) {
      problems.push_back(fmt::format("{}; it keeps what it has", error.what()));
      for (const int node : view.nodes) {
        auto& capacity = snapshot.nodes[static_cast<size_t>(node)].capacity;
        for (size_t r = 0; r < capacity.size(); ++r) {
          capacity[r] = std::max<int64_t>(0, capacity[r] - std::max<int64_t>(0, view.request[r]));
        }
      }
    }
  }
  return snapshot;
}

}  // namespace adaptdl
