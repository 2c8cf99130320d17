#pragma once

// The loop that shares a cluster: look, ask the policy, apply what changed. The same code for every
// cluster, the simulated one too. No threads and no clock of its own: whoever owns it calls
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
  double interval_s = 60;  // > 0: between rounds when nothing happens
  // When a job has come or gone, or a node, or a job may be given more than before, a round this
  // long after the last one (>= 0) instead of at the interval's end. Infinite: rounds keep to the
  // interval.
  double event_gap_s = std::numeric_limits<double>::infinity();
  uint64_t seed = 0;
  int64_t work = SearchBudget{}.work;  // how much a policy may search, see SearchBudget
  // How long it may, in each round, by the real clock: for live clusters, which cannot wait. None:
  // only `work` ends a search, so that the answer does not depend on the machine.
  std::optional<double> policy_limit_s;
};

// What one round did.
struct AllocatorRound {
  double time_s = 0;    // the cluster's
  double policy_s = 0;  // how long the policy took, by the real clock: for reports only
  int jobs = 0;
  int changes = 0;                    // allocations changed
  bool cut_short = false;             // time ran out before the policy was done
  std::vector<std::string> problems;  // jobs left out and why; calls that failed
};

class Allocator {
 public:
  // Borrows both for its life.
  Allocator(Cluster& cluster, Policy& policy, const AllocatorOptions& options);

  // The time (cluster's) of the next round; what it says holds until round() or
  // something_happened().
  double due() const { return due_s_; }

  // Jobs or nodes have come or gone at `time_s`, or a job has measured itself for the first time or
  // with more replicas than before, which limit what policies give it.
  void something_happened(double time_s);

  // One round, now. Jobs whose numbers no policy may see (check_job) take part without hints; if
  // even their specification is impossible, or they are not preemptible and hold what could not be
  // given to them now, they keep what they have, and the round says so. Jobs are stopped and shrunk
  // before others are given their GPUs. An Error from one job's call is noted and does not keep the
  // others from theirs; one from nodes() or jobs() is thrown. Where time cut the policy short,
  // every reason says so.
  AllocatorRound round();

 private:
  Cluster& cluster_;
  Policy& policy_;
  AllocatorOptions options_;
  double last_s_ = -std::numeric_limits<double>::infinity(), due_s_ = 0;
  std::map<std::string, std::string> reasons_;  // by job, as last told
};

}  // namespace adaptdl
