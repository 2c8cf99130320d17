#pragma once

// Converts a cluster's state (cluster.h) into a policy's input (core/policy/snapshot.h).

#include <string>
#include <vector>

#include "core/policy/snapshot.h"
#include "core/sched/cluster.h"

namespace adaptdl {

// The snapshot for a policy at `now_s`. resources[0] is the accelerator resource of which the nodes
// have most, of GPUs if there are any (is_accelerator()), or "cpu" if they have none. The snapshot
// omits jobs that cannot be scheduled, and `problems` gets a sentence for each; replicas on lost
// nodes count as not allocated.
Snapshot policy_input(const std::vector<ClusterNode>& nodes, const std::vector<ClusterJob>& jobs,
                      double now_s, std::vector<std::string>& problems);

}  // namespace adaptdl
