#pragma once

// Snapshots of large clusters, drawn from a seed: jobs of a few kinds of applications, each with
// measurements of its own, on equal nodes.

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/policy/random_snapshot.h"

namespace adaptdl {

struct LargeShape {
  int jobs = 20'000;
  int nodes = 12'500;
  int gpus = 8;  // of a node
  std::vector<std::string> accelerators = {""};
  double running = 0.5;  // share of jobs that have an allocation, in order of names
};

// An application: step times on one GPU, what a second and further replicas cost, and its batches.
struct LargeApplication {
  double share;  // of all jobs
  PerfParams perf;
  double noise;  // var / sqr of its gradients at the initial batch
  BatchBounds batch;
  int most;  // replicas that its jobs ask for at most
};

inline const std::vector<LargeApplication>& large_applications() {
  static const std::vector<LargeApplication> applications = {
      {0.38, {0.02, 1e-4, 0.02, 2e-3, 0.01, 5e-4, 1.6}, 40, {128, 4096, 32, 1024, true}, 64},
      {0.28, {0.05, 8e-3, 0.10, 4e-3, 0.04, 1e-3, 2.0}, 9, {8, 512, 4, 24, true}, 64},
      {0.16, {0.04, 4e-3, 0.06, 2e-3, 0.03, 1e-3, 1.8}, 12, {20, 640, 10, 40, true}, 32},
      {0.10, {0.09, 2e-2, 0.30, 6e-3, 0.12, 2e-3, 2.5}, 70, {12, 1024, 4, 16, true}, 256},
      {0.06, {0.06, 4e-3, 0.25, 3e-3, 0.10, 1e-3, 3.0}, 300, {200, 32000, 50, 200, true}, 1024},
      {0.02, {0.30, 9e-2, 0.80, 2e-3, 0.40, 1e-3, 4.0}, 900, {64, 65536, 1, 8, true}, 8192}};
  return applications;
}

inline JobSnapshot large_job(Draw& draw, const LargeShape& shape, int j) {
  const auto& applications = large_applications();
  double at = draw.uniform();
  size_t a = 0;
  while (a + 1 < applications.size() && at >= applications[a].share) at -= applications[a++].share;
  const LargeApplication& application = applications[a];
  const auto perf = [&](double speed) {
    PerfParams own = application.perf;
    for (double* time :
         {&own.alpha_c, &own.beta_c, &own.alpha_n, &own.beta_n, &own.alpha_r, &own.beta_r}) {
      *time *= draw.uniform(0.8, 1.25) / speed;
    }
    return own;
  };
  JobSnapshot job;
  job.name = fmt::format("job-{:05}", j);
  job.age_s = draw.log_uniform(60, 200'000);
  job.restarts = draw.integer(0, static_cast<int>(std::min(10.0, job.age_s / 600)));
  job.max_replicas = application.most;
  job.requested_replicas = std::min(application.most, 1 << draw.integer(0, 4));
  job.request = {1};
  if (draw.chance(0.1)) return job;  // has told nothing so far
  const bool kinds = shape.accelerators.size() > 1;
  if (!kinds) job.hints.perf = perf(1);
  for (size_t k = 0; kinds && k < shape.accelerators.size(); ++k) {
    // The first kind is the fastest.
    if (k == 0 || draw.chance(0.4)) {
      job.hints.kinds[shape.accelerators[k]].perf =
          perf(1 / (1 + static_cast<double>(k) * draw.uniform(0.4, 1.2)));
    }
  }
  job.hints.grad = GradParams{1, application.noise * draw.log_uniform(0.2, 5)};
  job.hints.batch = application.batch;
  job.hints.max_profiled_replicas =
      std::min(application.most, 1 << draw.integer(0, draw.chance(0.5) ? 3 : 8));
  if (draw.chance(0.5)) job.hints.remaining_progress = draw.log_uniform(1e3, 1e7);
  job.hints.rescale_cost_s = draw.uniform(1, 60);
  return job;
}

// Jobs run on whole nodes, or share a node with others.
inline Snapshot large_snapshot(uint64_t seed, const LargeShape& shape) {
  Draw draw(seed);
  Snapshot snapshot;
  snapshot.resources = {"gpu"};
  for (int n = 0; n < shape.nodes; ++n) {
    const size_t kind = static_cast<size_t>(n) * shape.accelerators.size() / shape.nodes;
    snapshot.nodes.push_back(
        {fmt::format("node-{:05}", n), shape.accelerators[kind], {int64_t{shape.gpus}}});
  }
  for (int j = 0; j < shape.jobs; ++j) snapshot.jobs.push_back(large_job(draw, shape, j));
  std::vector<int> order;  // of nodes, so that jobs lie anywhere
  for (int n = 0; n < shape.nodes; ++n) order.push_back(n);
  draw.shuffle(order);
  size_t next = 0;                          // in the order
  std::vector<std::pair<int, int>> partly;  // node, free
  const auto running = static_cast<size_t>(shape.running * shape.jobs);
  for (size_t j = 0; j < running; ++j) {
    JobSnapshot& job = snapshot.jobs[j];
    const int most = std::max(1, replica_limit(job, 1));
    const int replicas = std::min(most, 1 << draw.integer(0, 5));
    if (replicas <= shape.gpus) {
      auto there = std::find_if(partly.begin(), partly.end(),
                                [&](const auto& node) { return node.second >= replicas; });
      if (there == partly.end()) {
        if (next == order.size()) break;
        there = partly.insert(partly.end(), {order[next++], shape.gpus});
      }
      job.nodes.assign(static_cast<size_t>(replicas), there->first);
      there->second -= replicas;
      if (there->second == 0) partly.erase(there);
    } else {
      const auto whole = static_cast<size_t>(replicas / shape.gpus);
      if (next + whole > order.size()) break;
      for (size_t n = next; n < next + whole; ++n) {
        const auto& kind = snapshot.nodes[static_cast<size_t>(order[n])].accelerator;
        if (kind != snapshot.nodes[static_cast<size_t>(order[next])].accelerator) break;
        job.nodes.insert(job.nodes.end(), static_cast<size_t>(shape.gpus), order[n]);
      }
      next += job.nodes.size() / static_cast<size_t>(shape.gpus);
      std::sort(job.nodes.begin(), job.nodes.end());
    }
    job.attained_service = job.age_s * static_cast<double>(job.nodes.size());
  }
  return snapshot;
}

}  // namespace adaptdl
