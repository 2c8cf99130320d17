#pragma once

// Anchored jobs (ClusterJob::anchored): replicas can join and leave, but one replica, the anchor,
// cannot move without a restart of all. Policies count replicas and nodes and do not know anchors.

#include <vector>

#include "core/policy/snapshot.h"

namespace adaptdl {

// An anchored job, and the node of its anchor.
struct Anchor {
  int job = 0;   // in Snapshot::jobs
  int node = 0;  // in Snapshot::nodes
};

// Puts each anchor's node first in its job's list. If the list lacks that node, it replaces another
// node of the list, provided that the replicas fit there, or that a job which moves anyway can take
// the other node in exchange. The allocation, one list for each job, is feasible before and after;
// each job's numbers of replicas and nodes stay the same. O(jobs on its node) for each anchor that
// is missing in its list.
void keep_anchors(const Snapshot& snapshot, const std::vector<Anchor>& anchors,
                  std::vector<NodeList>& allocation);

}  // namespace adaptdl
