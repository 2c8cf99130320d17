#pragma once

// The swap point: what the scheduler knows of any cluster. Kubernetes, this machine's processes and
// the simulator's virtual machines stand behind the same few functions.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/goodput/job_hints.h"
#include "core/job/phase.h"

namespace adaptdl {

// Amounts by resource name ("nvidia.com/gpu", "cpu" in millicores, "memory" in bytes), >= 0. A name
// with a ':' stands for a condition instead: nodes that meet it have plenty, others nothing, and
// who needs it asks for 1.
using Resources = std::map<std::string, int64_t>;

inline bool is_condition(std::string_view resource) {
  return resource.find(':') != std::string_view::npos;
}

struct ClusterNode {
  std::string name;         // unique
  std::string accelerator;  // kind of its GPUs; "" if all are alike or none
  Resources free_for_jobs;  // what is there, less what is not ours to give
};

struct ClusterJob {
  std::string name;  // unique among the cluster's unfinished jobs
  double submitted_s = 0;
  JobPhase phase = JobPhase::pending;
  std::vector<std::string> nodes;  // its allocation: one node name for each replica, by rank
  double attained_service = 0;     // GPU seconds
  int restarts = 0;                // changes of its allocation after the first
  int min_replicas = 0, max_replicas = 1, requested_replicas = 1;
  bool preemptible = true;
  // Its other replicas come and go while it runs, but the one on nodes[0] cannot: without it, or
  // when it moves, all start again.
  bool anchored = false;
  Resources request;  // by one replica
  JobHints hints;
};

// One thread. Every function may throw Error where the cluster cannot be reached; what was
// allocated stands then, and the next round tries again.
class Cluster {
 public:
  virtual ~Cluster() = default;

  // Seconds since some fixed moment, on a clock that does not jump.
  virtual double now_s() = 0;

  // Nodes that may be given replicas. A node that went, or is about to, is not among them.
  virtual std::vector<ClusterNode> nodes() = 0;

  // Jobs that have not finished, by submission, then by name. A job whose node has gone has no
  // allocation on it any more.
  virtual std::vector<ClusterJob> jobs() = 0;

  // Gives the job these nodes instead of what it had; empty: none. `why` is for its user. Takes
  // effect some time later; what counts is what jobs() says.
  virtual void allocate(const std::string& job, const std::vector<std::string>& nodes,
                        const std::string& why) = 0;

  // The reason for an allocation that stays, when it has changed.
  virtual void explain(const std::string& job, const std::string& why) = 0;
};

}  // namespace adaptdl
