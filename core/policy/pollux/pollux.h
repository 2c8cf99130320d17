#pragma once

// The policy of Pollux (OSDI'21, section 4.2): every job's speedup over its fair share of the
// cluster, less what restarts cost it, averaged with an exponent that says how much fairness
// counts. The objective is the published one; the search for its maximum is not.

#include <span>
#include <vector>

#include "core/policy/policy.h"

namespace adaptdl {

struct PolluxOptions {
  double fairness = -1;            // exponent p of the power mean, -10 to 10; 0: geometric mean
  bool avoid_interference = true;  // at most one job spanning several nodes on a node
  double rescale_cost_s = 30;      // for jobs that have not measured theirs, >= 0
};

// With N nodes, G of resources[0] on them, and J jobs, for each job:
//   speedup = goodput of its allocation / goodput of ceil(G/J) accelerators on one node
//   factor  = 1 if its allocation is the present one, else
//             max(0, age - restarts * cost) / (age + cost), cost: of a rescale, in seconds
//   u       = speedup * factor * N / G + 0.001
// fitness = (mean of u^p)^(1/p). With the published constants, one waiting job does not make the
// fitness zero for p = -1. An allocation is the present one if it has as many replicas on every
// node; the order of ranks does not matter.
struct PolluxEvaluation {
  std::vector<double> speedup, factor;  // by job
  double fitness = 0;                   // 0 without jobs
};

// Requires: a snapshot that check_snapshot accepts, one list for each of its jobs, each on nodes of
// one accelerator kind. Does not check that the allocation is feasible. Pure. Some microseconds for
// each job.
PolluxEvaluation evaluate_pollux(const Snapshot& snapshot, std::span<const NodeList> allocation,
                                 const PolluxOptions& options);

// The most replicas that pollux gives the job: replica_limit(), but at least min_replicas, because
// a job that cannot start could never measure itself.
int pollux_limit(const JobSnapshot& job);

PolicyInfo pollux_policy();

}  // namespace adaptdl
