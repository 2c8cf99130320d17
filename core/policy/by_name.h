#pragma once

// Policies break ties by the order of jobs. The order of names is the same for every caller.

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "core/policy/policy.h"

namespace adaptdl {

// Calls decide(ordered) with the snapshot's jobs sorted by name. Returns the decisions in the
// snapshot's own order.
template <typename Decide>
Decision decide_by_name(const Snapshot& snapshot, Decide&& decide) {
  std::vector<size_t> order(snapshot.jobs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return snapshot.jobs[a].name < snapshot.jobs[b].name; });
  Snapshot ordered{snapshot.resources, snapshot.nodes, {}};
  for (const size_t j : order) ordered.jobs.push_back(snapshot.jobs[j]);
  Decision decision = decide(std::as_const(ordered));
  std::vector<JobDecision> jobs(order.size());
  for (size_t i = 0; i < order.size(); ++i) jobs[order[i]] = std::move(decision.jobs[i]);
  decision.jobs = std::move(jobs);
  return decision;
}

}  // namespace adaptdl
