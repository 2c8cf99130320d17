#pragma once

// The scheduler's interface to any cluster. Kubernetes, the local cluster and the simulator
// implement it.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/goodput/job_hints.h"
#include "core/job/phase.h"
#include "core/policy/snapshot.h"

namespace adaptdl {

// Amounts by resource name ("nvidia.com/gpu", "cpu" in millicores, "memory" in bytes), >= 0. A name
// with a ':' is a condition (is_condition()) instead: nodes that meet it have a large amount, other
// nodes 0, and jobs that need it request 1.
using Resources = std::map<std::string, int64_t>;

struct ClusterNode {
  std::string name;         // unique
  std::string accelerator;  // kind of its GPUs; "" if all are alike or none
  Resources free_for_jobs;  // the node's resources without those that others use
};

struct ClusterJob {
  std::string name;  // unique among the cluster's unfinished jobs
  double submitted_s = 0;
  JobPhase phase = JobPhase::pending;
  std::vector<std::string> nodes;  // its allocation: one node name for each replica, by rank
  double attained_service = 0;     // GPU seconds
  int restarts = 0;                // changes of its allocation after the first
  int min_replicas = 0, max_replicas = 1, requested_replicas = 1;
  int64_t requested_batch = 0;  // 0: unknown
  bool preemptible = true;
  bool settling = false, restartable = false;  // see JobSnapshot
  // Other replicas can join and leave while the job runs, but the one on nodes[0] cannot: if it is
  // lost or moves, all replicas restart.
  bool anchored = false;
  Resources request;                  // by one replica
  std::optional<double> length_rank;  // see JobSnapshot
  JobHints hints;
};

// One thread. Every function may throw Error if the cluster is unreachable. Allocations then stay,
// and the next round tries again.
class Cluster {
 public:
  virtual ~Cluster() = default;

  // Seconds since a fixed moment, by a monotonic clock.
  virtual double now_s() = 0;

  // Nodes that may get replicas, without nodes that are lost or will be lost soon.
  virtual std::vector<ClusterNode> nodes() = 0;

  // Jobs that have not finished, by submission, then by name. Allocations do not contain lost
  // nodes.
  virtual std::vector<ClusterJob> jobs() = 0;

  // Replaces the job's allocation by these nodes; empty: none. `why` is for its user. Takes effect
  // later; jobs() shows the actual state.
  virtual void allocate(const std::string& job, const std::vector<std::string>& nodes,
                        const std::string& why) = 0;

  // Sets a new reason for an unchanged allocation.
  virtual void explain(const std::string& job, const std::string& why) = 0;
};

}  // namespace adaptdl
