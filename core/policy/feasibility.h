#pragma once

// The rules of every allocation, and the free resources of each node.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/policy/snapshot.h"

namespace adaptdl {

// How many replicas of the job an empty node holds; at most `most`. O(resources).
int64_t fits_empty(const Snapshot& snapshot, const JobSnapshot& job, int node, int64_t most);

// The free resources of each node. Borrows the snapshot.
// Invariant: 0 <= free <= capacity for every node and resource.
class FreeResources {
 public:
  explicit FreeResources(const Snapshot& snapshot);

  // How many replicas of the job fit on the node now. O(resources).
  int64_t fits(int job, int node) const;

  // Requires: they fit; they were taken.
  void take(int job, int node, int64_t replicas);
  void release(int job, int node, int64_t replicas);
  void take(int job, const NodeList& nodes);
  void release(int job, const NodeList& nodes);
  bool can_take(int job, const NodeList& nodes) const;

  int64_t free(int node, int resource = 0) const;

 private:
  const Snapshot& snapshot_;
  std::vector<int64_t> free_;  // node * resources + resource
};

// The first rule that the allocation breaks, as a sentence with the job or node; empty if feasible:
//  1. no node allocates more of a resource than it has;
//  2. replicas are 0, or between min_replicas and max_replicas;
//  3. a job that is not preemptible keeps its allocation unchanged;
//  4. the replicas of a job are on nodes of one accelerator kind;
//  5. with `avoid_interference`, at most one job spanning several nodes has replicas on a node.
// Requires: one list for each job of the snapshot.
std::optional<std::string> broken_rule(const Snapshot& snapshot,
                                       std::span<const NodeList> allocation,
                                       bool avoid_interference);

// The same for rules 2 to 4 and one job on these nodes.
std::optional<std::string> broken_by_job(const Snapshot& snapshot, const JobSnapshot& job,
                                         const NodeList& nodes);

}  // namespace adaptdl
