#include "core/policy/feasibility.h"

#include <algorithm>
#include <limits>

#include "core/base/error.h"

namespace adaptdl {
namespace {

// Calls visit(node, count) for each run of equal nodes; one pass, whatever the order.
template <typename Visit>
void for_each_run(const NodeList& nodes, const Visit& visit) {
  for (size_t i = 0; i < nodes.size();) {
    size_t end = i + 1;
    while (end < nodes.size() && nodes[end] == nodes[i]) ++end;
    visit(nodes[i], static_cast<int64_t>(end - i));
    i = end;
  }
}

}  // namespace

FreeResources::FreeResources(const Snapshot& snapshot) : snapshot_(snapshot) {
  for (const NodeSnapshot& node : snapshot.nodes) {
    free_.insert(free_.end(), node.capacity.begin(), node.capacity.end());
  }
}

int64_t fits_empty(const Snapshot& snapshot, const JobSnapshot& job, int node, int64_t most) {
  const auto& capacity = snapshot.nodes[static_cast<size_t>(node)].capacity;
  for (size_t r = 0; r < job.request.size(); ++r) {
    if (job.request[r] > 0) most = std::min(most, capacity[r] / job.request[r]);
  }
  return most;
}

int64_t FreeResources::free(int node, int resource) const {
  return free_[static_cast<size_t>(node) * snapshot_.resources.size() +
               static_cast<size_t>(resource)];
}

int64_t FreeResources::fits(int job, int node) const {
  int64_t replicas = std::numeric_limits<int64_t>::max();
  const auto& request = snapshot_.jobs[static_cast<size_t>(job)].request;
  for (size_t r = 0; r < request.size(); ++r) {
    if (request[r] > 0) {
      replicas = std::min(replicas, free(node, static_cast<int>(r)) / request[r]);
    }
  }
  return replicas;
}

void FreeResources::take(int job, int node, int64_t replicas) {
  const auto& request = snapshot_.jobs[static_cast<size_t>(job)].request;
  const auto& capacity = snapshot_.nodes[static_cast<size_t>(node)].capacity;
  const size_t first = static_cast<size_t>(node) * request.size();
  for (size_t r = 0; r < request.size(); ++r) {
    int64_t& left = free_[first + r];
    left -= replicas * request[r];
    ADAPTDL_CHECK(0 <= left && left <= capacity[r]);
  }
}

void FreeResources::release(int job, int node, int64_t replicas) {
  take(job, node, -replicas);
}

void FreeResources::take(int job, const NodeList& nodes) {
  for_each_run(nodes, [&](int node, int64_t count) { take(job, node, count); });
}

void FreeResources::release(int job, const NodeList& nodes) {
  for_each_run(nodes, [&](int node, int64_t count) { release(job, node, count); });
}

bool FreeResources::can_take(int job, const NodeList& nodes) const {
  const auto fits_all = [&](const NodeList& list) {
    bool all = true;
    for_each_run(list, [&](int node, int64_t count) { all = all && fits(job, node) >= count; });
    return all;
  };
  if (std::is_sorted(nodes.begin(), nodes.end())) return fits_all(nodes);
  NodeList sorted = nodes;
  std::sort(sorted.begin(), sorted.end());
  return fits_all(sorted);
}

namespace {

std::optional<std::string> overfull_node(const Snapshot& snapshot,
                                         std::span<const NodeList> allocation) {
  const size_t resources = snapshot.resources.size();
  std::vector<int64_t> used(snapshot.nodes.size() * resources);
  for (size_t j = 0; j < allocation.size(); ++j) {
    for (const int node : allocation[j]) {
      for (size_t r = 0; r < resources; ++r) {
        used[static_cast<size_t>(node) * resources + r] += snapshot.jobs[j].request[r];
      }
    }
  }
  for (size_t n = 0; n < snapshot.nodes.size(); ++n) {
    for (size_t r = 0; r < resources; ++r) {
      const int64_t capacity = snapshot.nodes[n].capacity[r], sum = used[n * resources + r];
      if (sum > capacity) {
        return fmt::format("node {}: {} of {} {} are allocated", snapshot.nodes[n].name, sum,
                           capacity, snapshot.resources[r]);
      }
    }
  }
  return std::nullopt;
}

std::optional<std::string> interference(const Snapshot& snapshot,
                                        std::span<const NodeList> allocation) {
  std::vector<int> distributed(snapshot.nodes.size(), -1);
  for (size_t j = 0; j < allocation.size(); ++j) {
    if (distinct_nodes(allocation[j]) < 2) continue;
    for (const int node : allocation[j]) {
      int& owner = distributed[static_cast<size_t>(node)];
      if (owner >= 0 && owner != static_cast<int>(j)) {
        return fmt::format("node {}: the distributed jobs {} and {} share it",
                           snapshot.nodes[static_cast<size_t>(node)].name,
                           snapshot.jobs[static_cast<size_t>(owner)].name, snapshot.jobs[j].name);
      }
      owner = static_cast<int>(j);
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> broken_by_job(const Snapshot& snapshot, const JobSnapshot& job,
                                         const NodeList& nodes) {
  const auto replicas = static_cast<int>(nodes.size());
  if (replicas > 0 && (replicas < job.min_replicas || replicas > job.max_replicas)) {
    return fmt::format("job {}: {} replicas; {} to {} are allowed", job.name, replicas,
                       job.min_replicas, job.max_replicas);
  }
  if (!job.preemptible && !job.nodes.empty() && job.nodes != nodes) {
    return fmt::format("job {}: its allocation changes, but it is not preemptible", job.name);
  }
  for (const int node : nodes) {
    const auto& first = snapshot.nodes[static_cast<size_t>(nodes.front())];
    if (snapshot.nodes[static_cast<size_t>(node)].accelerator != first.accelerator) {
      return fmt::format("job {}: its nodes have accelerators of several kinds", job.name);
    }
  }
  return std::nullopt;
}

std::optional<std::string> broken_rule(const Snapshot& snapshot,
                                       std::span<const NodeList> allocation,
                                       bool avoid_interference) {
  ADAPTDL_CHECK(allocation.size() == snapshot.jobs.size());
  for (size_t j = 0; j < allocation.size(); ++j) {
    if (auto broken = broken_by_job(snapshot, snapshot.jobs[j], allocation[j])) return broken;
  }
  if (auto broken = overfull_node(snapshot, allocation)) return broken;
  return avoid_interference ? interference(snapshot, allocation) : std::nullopt;
}

}  // namespace adaptdl
