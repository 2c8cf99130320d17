#include "core/policy/snapshot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_set>

#include "core/base/error.h"

namespace adaptdl {
namespace {

bool is_amount(double value) {
  return std::isfinite(value) && value >= 0;
}

void check_amounts(const std::vector<int64_t>& amounts, size_t count, const std::string& what) {
  if (amounts.size() != count) {
    fail("{}: has {} amounts for {} resources", what, amounts.size(), count);
  }
  for (const int64_t amount : amounts) {
    if (amount < 0) fail("{}: an amount is {}; it must be at least 0", what, amount);
  }
}

// As the vendors' device plugins name them. Intel's also tells of memory and monitors.
constexpr std::array<std::string_view, 7> kAccelerators = {"google.com/tpu",
                                                           "habana.ai/gaudi",
                                                           "aws.amazon.com/neuron",
                                                           "aws.amazon.com/neuroncore",
                                                           "aws.amazon.com/neurondevice",
                                                           "gpu.intel.com/i915",
                                                           "gpu.intel.com/xe"};

}  // namespace

bool is_accelerator(std::string_view resource) {
  if (is_condition(resource)) return false;
  if (std::ranges::count(kAccelerators, resource) > 0) return true;
  if (resource.starts_with("nvidia.com/mig-")) return true;
  return resource.find("gpu") != std::string_view::npos && !resource.starts_with("gpu.intel.com/");
}

void check_hints(const JobHints& hints, const std::string& job) {
  const std::string what = "job " + job;
  const int64_t initial = hints.batch ? hints.batch->initial : 1;
  // These throw on parameters that are not finite or negative, and on inconsistent bounds.
  const GradParams grad = hints.grad.value_or(GradParams{});
  try {
    const GoodputModel model(hints.perf.value_or(PerfParams{}), grad, initial);
    if (hints.batch) model.optimize(1, 1, *hints.batch);
    for (const auto& [kind, known] : hints.kinds) {
      GoodputModel(known.perf.value_or(PerfParams{}), grad, initial);
      if (!(known.speed.value_or(1) > 0 && std::isfinite(known.speed.value_or(1)))) {
        fail("speed on {} is {}; it must be finite and above 0", kind, *known.speed);
      }
      if (known.atomic_max.value_or(1) < 1) {
        fail("atomic_max on {} is {}; it must be at least 1", kind, *known.atomic_max);
      }
    }
  } catch (const Error& error) {
    fail("{}: {}", what, error.what());
  }
  if (hints.max_profiled_replicas < 0) fail("{}: max_profiled_replicas is negative", what);
  if (!is_amount(hints.remaining_progress.value_or(0))) {
    fail("{}: remaining_progress is {}; it must be finite and at least 0", what,
         *hints.remaining_progress);
  }
  if (!is_amount(hints.start_cost_s.value_or(0))) {
    fail("{}: start_cost is {} s; it must be finite and at least 0", what, *hints.start_cost_s);
  }
  if (!is_amount(hints.rescale_cost_s.value_or(0))) {
    fail("{}: rescale_cost is {} s; it must be finite and at least 0", what, *hints.rescale_cost_s);
  }
}

void check_job(const Snapshot& snapshot, const JobSnapshot& job) {
  const std::string what = "job " + job.name;
  check_amounts(job.request, snapshot.resources.size(), what);
  if (std::all_of(job.request.begin(), job.request.end(), [](int64_t x) { return x == 0; })) {
    fail("{}: a replica requests no resources", what);
  }
  if (!is_amount(job.age_s) || !is_amount(job.attained_service) || job.restarts < 0) {
    fail("{}: age, attained service and restarts must be at least 0", what);
  }
  if (job.min_replicas < 0 || job.max_replicas < std::max(1, job.min_replicas) ||
      job.requested_replicas < 1) {
    fail(
        "{}: replicas {} to {}, {} requested; they must satisfy 0 <= min <= max and max, requested "
        ">= 1",
        what, job.min_replicas, job.max_replicas, job.requested_replicas);
  }
  for (const int node : job.nodes) {
    if (node < 0 || static_cast<size_t>(node) >= snapshot.nodes.size()) {
      fail("{}: is on node {}, but the snapshot has {} nodes", what, node, snapshot.nodes.size());
    }
  }
  check_hints(job.hints, job.name);
}

void check_snapshot(const Snapshot& snapshot) {
  if (snapshot.resources.empty()) fail("a snapshot needs at least one resource");
  std::unordered_set<std::string_view> names;
  for (const NodeSnapshot& node : snapshot.nodes) {
    check_amounts(node.capacity, snapshot.resources.size(), "node " + node.name);
    if (!names.insert(node.name).second) fail("two nodes are called {}", node.name);
  }
  names.clear();
  for (const JobSnapshot& job : snapshot.jobs) {
    check_job(snapshot, job);
    if (!names.insert(job.name).second) fail("two jobs are called {}", job.name);
  }
}

NodeList each_once(NodeList nodes) {
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

int distinct_nodes(const NodeList& nodes) {
  return static_cast<int>(each_once(nodes).size());
}

bool is_silent(const JobSnapshot& job) {
  const JobHints& hints = job.hints;
  return job.restartable && hints.max_profiled_replicas == 0 && !hints.perf && hints.kinds.empty();
}

double rescale_cost_s(const JobSnapshot& job, double unmeasured_s) {
  if (job.hints.rescale_cost_s) return *job.hints.rescale_cost_s;
  return is_silent(job) ? std::max(unmeasured_s, kAssumedRestart) : unmeasured_s;
}

int replica_limit(const JobSnapshot& job, double growth) {
  if (is_silent(job)) return job.max_replicas;
  const double measured = std::max(growth * job.hints.max_profiled_replicas, 1.0);
  int64_t limit = std::min<int64_t>(job.max_replicas, std::llround(std::floor(measured)));
  if (job.hints.batch) limit = std::min(limit, job.hints.batch->max / job.hints.batch->atomic_min);
  return static_cast<int>(limit);
}

}  // namespace adaptdl
