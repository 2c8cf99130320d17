#pragma once

// The scheduling loop of a cluster: read the state, ask the policy, apply the changes. The same
// code for every cluster, also the simulated one. It has no threads and no clock; its owner calls
// round() when due() says so.

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/policy/policy.h"
#include "core/sched/cluster.h"

namespace adaptdl {

struct AllocatorOptions {
  double interval_s = 60;  // > 0: between rounds without events
  // After an event (a job or node was added or removed, or a job may get more replicas than before)
  // the next round comes this long after the last one (>= 0), not at the interval's end. Infinite:
  // events do not trigger rounds.
  double event_gap_s = std::numeric_limits<double>::infinity();
  uint64_t seed = 0;
  int64_t work = SearchBudget{}.work;  // how much a policy may search, see SearchBudget
  // How long a policy may search in each round, by the real clock: for live clusters, which cannot
  // wait. None: only `work` ends a search, so the answer does not depend on the machine.
  std::optional<double> policy_limit_s;
};

// The result of one round.
struct AllocatorRound {
  double time_s = 0;    // the cluster's clock
  double policy_s = 0;  // time the policy took, by the real clock: for reports only
  int jobs = 0;
  int changes = 0;                    // allocations changed
  bool cut_short = false;             // the policy's search timed out
  std::vector<std::string> problems;  // why jobs were omitted; calls that failed
};

class Allocator {
 public:
  // Borrows both for its lifetime.
  Allocator(Cluster& cluster, Policy& policy, const AllocatorOptions& options);

  // The time of the next round, by the cluster's clock; valid until round() or
  // something_happened().
  double due() const { return due_s_; }

  // Reports an event at `time_s`: jobs or nodes were added or removed, or a job has measured itself
  // for the first time or with more replicas than before, which raises its limit in policies.
  void something_happened(double time_s);

  // Runs one round now. A job with invalid hints (check_hints) takes part without hints. A job with
  // an invalid specification, or one that is not preemptible and whose allocation is infeasible
  // now, keeps its allocation, and the round reports it. The round stops and shrinks jobs before it
  // gives their GPUs to other jobs. An Error from one job's call is reported and does not affect
  // the other jobs; an Error from nodes() or jobs() is thrown. If the policy's search timed out,
  // every reason says so.
  AllocatorRound round();

 private:
  Cluster& cluster_;
  Policy& policy_;
  AllocatorOptions options_;
  double last_s_ = -std::numeric_limits<double>::infinity(), due_s_ = 0;
  std::map<std::string, std::string> reasons_;  // by job, as last sent to the cluster
};

}  // namespace adaptdl
