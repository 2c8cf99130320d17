#pragma once

// Snapshots drawn from a seed, the same on every machine, for tests of policies.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "core/base/rng.h"
#include "core/policy/feasibility.h"
#include "core/policy/snapshot.h"

namespace adaptdl {

// Numbers in ranges, and choices.
class Draw : public Rng {
 public:
  using Rng::Rng;
  using Rng::uniform;

  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  double log_uniform(double low, double high) {
    return std::exp(uniform(std::log(low), std::log(high)));
  }
  int integer(int low, int high) {  // both included
    return low + static_cast<int>(bits() % static_cast<uint64_t>(high - low + 1));
  }
  template <typename T>
  const T& one_of(const std::vector<T>& items) {
    return items[bits() % items.size()];
  }
  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[bits() % i]);
  }
};

struct SnapshotShape {
  int nodes = 16;
  std::vector<int> gpus = {4};  // of a node: one of these
  std::vector<std::string> accelerators = {""};
  bool cores = false;  // a second resource, of which a replica takes 1 to 8
  bool wide = false;   // replicas of some jobs take two GPUs
  int jobs = 20;
  double running = 0.4;  // share of jobs that have an allocation
  double pinned = 0;     // share of running jobs that are not preemptible
  double hintless = 0;   // share of jobs that have told nothing
};

inline JobHints random_hints(Draw& draw, const SnapshotShape& shape) {
  JobHints hints;
  const auto perf = [&] {
    return PerfParams{draw.log_uniform(0.01, 0.5), draw.log_uniform(2e-4, 2e-2),
                      draw.log_uniform(0.03, 1),   draw.log_uniform(1e-4, 2e-2),
                      draw.log_uniform(0.01, 0.3), draw.log_uniform(1e-4, 5e-3),
                      draw.uniform(1, 10)};
  };
  hints.perf = perf();
  if (shape.accelerators.size() > 1) {
    for (const auto& kind : shape.accelerators) {
      if (draw.chance(0.6)) hints.kinds[kind].perf = perf();
    }
  }
  hints.grad = GradParams{draw.log_uniform(1e-4, 1), draw.log_uniform(1e-4, 100)};
  const int64_t initial = draw.one_of(std::vector<int64_t>{12, 20, 64, 128, 200, 256});
  BatchBounds batch;
  batch.initial = initial;
  batch.max = initial * draw.one_of(std::vector<int64_t>{8, 16, 32, 64});
  batch.atomic_min = draw.one_of(std::vector<int64_t>{1, 4, 8});
  batch.atomic_max = initial * draw.integer(1, 2);
  batch.accumulation = true;
  hints.batch = batch;
  hints.max_profiled_replicas = 1 << draw.integer(0, 5);
  hints.remaining_progress = draw.log_uniform(10, 1e6);
  if (draw.chance(0.5)) hints.rescale_cost_s = draw.uniform(2, 40);
  return hints;
}

// Gives the job some replicas on what is free: on one node if a node has room for them, else on
// empty nodes, so that no two distributed jobs share one.
inline void place_somewhere(Draw& draw, Snapshot& snapshot, int j, FreeResources& free) {
  JobSnapshot& job = snapshot.jobs[static_cast<size_t>(j)];
  const int most = std::max(replica_limit(job), std::max(job.min_replicas, 1));
  const int wanted = std::max({1, job.min_replicas, draw.integer(1, most)});
  NodeList order;
  for (int n = 0; n < static_cast<int>(snapshot.nodes.size()); ++n) order.push_back(n);
  draw.shuffle(order);
  for (const int n : order) {
    if (free.fits(j, n) < wanted) continue;
    job.nodes.assign(static_cast<size_t>(wanted), n);
    free.take(j, job.nodes);
    return;
  }
  NodeList found;
  for (const int n : order) {
    const auto& node = snapshot.nodes[static_cast<size_t>(n)];
    if (!found.empty() &&
        snapshot.nodes[static_cast<size_t>(found[0])].accelerator != node.accelerator) {
      continue;
    }
    if (free.free(n) < node.capacity[0]) continue;
    for (int64_t k = free.fits(j, n); k > 0 && static_cast<int>(found.size()) < wanted; --k) {
      found.push_back(n);
    }
  }
  if (static_cast<int>(found.size()) < wanted) return;
  std::sort(found.begin(), found.end());
  job.nodes = found;
  free.take(j, job.nodes);
}

inline Snapshot random_snapshot(uint64_t seed, const SnapshotShape& shape) {
  Draw draw(seed);
  Snapshot snapshot;
  snapshot.resources = {"gpu"};
  if (shape.cores) snapshot.resources.push_back("cores");
  for (int n = 0; n < shape.nodes; ++n) {
    const int gpus = draw.one_of(shape.gpus);
    NodeSnapshot node{fmt::format("node-{:05}", n), draw.one_of(shape.accelerators), {gpus}};
    if (shape.cores) node.capacity.push_back(gpus * 6);
    snapshot.nodes.push_back(node);
  }
  for (int j = 0; j < shape.jobs; ++j) {
    JobSnapshot job;
    job.name = fmt::format("job-{:05}", j);
    job.age_s = draw.chance(0.1) ? 0 : draw.log_uniform(30, 40000);
    job.restarts = draw.integer(0, static_cast<int>(std::min(10.0, job.age_s / 600)));
    job.min_replicas = draw.one_of(std::vector<int>{0, 0, 0, 1, 2});
    job.max_replicas = draw.one_of(std::vector<int>{8, 16, 32, 64});
    job.requested_replicas = draw.integer(1, 8);
    job.request = {shape.wide && draw.chance(0.3) ? 2 : 1};
    if (shape.cores) job.request.push_back(draw.integer(1, 8));
    if (!draw.chance(shape.hintless)) job.hints = random_hints(draw, shape);
    snapshot.jobs.push_back(job);
  }
  FreeResources free(snapshot);
  for (int j = 0; j < shape.jobs; ++j) {
    if (!draw.chance(shape.running)) continue;
    place_somewhere(draw, snapshot, j, free);
    JobSnapshot& job = snapshot.jobs[static_cast<size_t>(j)];
    job.attained_service = job.age_s * static_cast<double>(job.nodes.size());
    if (!job.nodes.empty()) job.preemptible = !draw.chance(shape.pinned);
  }
  return snapshot;
}

}  // namespace adaptdl
