#pragma once

// Jobs whose replicas come and go beside one that cannot move without a restart of all (an anchor:
// ClusterJob::anchored). Policies count replicas and nodes and know nothing of it.

#include <vector>

#include "core/policy/snapshot.h"

namespace adaptdl {

// An anchored job, and the node of its anchor.
struct Anchor {
  int job = 0;   // in Snapshot::jobs
  int node = 0;  // in Snapshot::nodes
};

// Puts anchors first in their jobs' lists. Where a list is without the anchor's node, that node
// takes the place of another one, if it has the room, or if a job that moves anyway can have the
// other one in exchange. The allocation, one list for each job, is feasible before and after; who
// has how many replicas, and on how many nodes, stays the same. O(jobs) for each anchor that a list
// is without.
void keep_anchors(const Snapshot& snapshot, const std::vector<Anchor>& anchors,
                  std::vector<NodeList>& allocation);

}  // namespace adaptdl
