#pragma once

// From what a cluster tells (cluster.h) to what a policy is asked about (core/policy/snapshot.h).

#include <string>
#include <vector>

#include "core/policy/snapshot.h"
#include "core/sched/cluster.h"

namespace adaptdl {

// The cluster as a policy sees it, at `now_s`. resources[0] is the accelerator resource of which
// the nodes have most, or "cpu" if none has any. Jobs that cannot be scheduled are left out of the
// snapshot, with a sentence in `problems`; replicas on nodes that are gone count as not allocated.
Snapshot policy_input(const std::vector<ClusterNode>& nodes, const std::vector<ClusterJob>& jobs,
                      double now_s, std::vector<std::string>& problems);

}  // namespace adaptdl
