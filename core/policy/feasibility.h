#pragma once

// What every allocation must respect, and the bookkeeping of what is free on each node.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/policy/snapshot.h"

namespace adaptdl {

// Amounts that are free on each node, under takes and releases. Borrows the snapshot.
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

// The first rule that the allocation breaks, as a sentence naming job or node; nothing if feasible:
//  1. no node gives more of a resource than it has;
//  2. replicas are 0, or between min_replicas and max_replicas;
//  3. a job that is not preemptible and has an allocation keeps exactly that;
//  4. the replicas of a job are on nodes of one accelerator kind;
//  5. with `avoid_interference`, at most one job spanning several nodes has replicas on a node.
// Requires: one list for each job of the snapshot.
std::optional<std::string> broken_rule(const Snapshot& snapshot,
                                       std::span<const NodeList> allocation,
                                       bool avoid_interference);

// The same, of rules 2 to 4, for one job that has these nodes.
std::optional<std::string> broken_by_job(const Snapshot& snapshot, const JobSnapshot& job,
                                         const NodeList& nodes);

}  // namespace adaptdl
