#pragma once

#include <fmt/format.h>

#include "core/policy/snapshot.h"

namespace adaptdl {

// Jobs of one model on one node of 8 GPUs, whose goodput grows nearly with the replicas.
inline Snapshot alike(int jobs) {
  Snapshot snapshot;
  snapshot.resources = {"gpu"};
  snapshot.nodes = {{"node", "", {8}}};
  for (int j = 0; j < jobs; ++j) {
    JobSnapshot job;
    job.name = fmt::format("job-{}", j);
    job.age_s = 1000;
    job.max_replicas = 8;
    job.request = {1};
    job.hints.perf = PerfParams{0.01, 0.01, 0.02, 0.001, 0.005, 0.0001, 2};
    job.hints.grad = GradParams{0.001, 10};
    job.hints.batch = BatchBounds{64, 2048, 1, 256, true};
    job.hints.max_profiled_replicas = 8;
    snapshot.jobs.push_back(job);
  }
  return snapshot;
}

}  // namespace adaptdl
