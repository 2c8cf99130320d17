#pragma once

// The allocation during pollux's search, and the free resources.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/policy/pollux/pollux_objective.h"

namespace adaptdl {

struct NodeShare {
  int node = 0;
  int replicas = 0;  // >= 1

  bool operator==(const NodeShare&) const = default;
};

// One entry for each node. Empty: no allocation.
using PolluxRow = std::vector<NodeShare>;

PolluxRow row_of(const NodeList& nodes);
int replicas_of(const PolluxRow& row);

// Borrows snapshot and objective. Invariants, except for forced rows: no node allocates more than
// it has; with interference avoidance at most one job of several nodes has a share of a node.
class PolluxAllocation {
 public:
  PolluxAllocation(const Snapshot& snapshot, const PolluxObjective& objective,
                   bool avoid_interference);

  const PolluxRow& row(int job) const { return rows_[static_cast<size_t>(job)]; }
  const std::vector<int>& nodes(int kind) const { return nodes_[static_cast<size_t>(kind)]; }

  // Replicas of the job that fit on the node now, >= 0. O(resources).
  int fits(int job, int node) const;
  // The free amount, >= 0.
  int64_t free(int node, int resource) const {
    const size_t at = static_cast<size_t>(node) * snapshot_->resources.size();
    return std::max<int64_t>(free_[at + static_cast<size_t>(resource)], 0);
  }
  // The free amount of resources[0] on all nodes together.
  int64_t all_free() const { return all_free_; }
  // Whether a job of several nodes may have a share of it.
  bool spans(int node) const { return !avoid_ || spanning_[static_cast<size_t>(node)] == 0; }
  bool can_put(int job, const PolluxRow& row) const;

  // Requires: the job has no row; can_put(), unless the row is forced.
  void put(int job, PolluxRow row);
  void remove(int job);

  // What one job could get on nodes of a kind now. O(nodes of that kind).
  struct Room {
    int most_on_one = 0;
    int64_t on_several = 0;   // sum over nodes that it may span
    int largest_spanned = 0;  // most on one of these
    int spanned_nodes = 0;    // how many of these have any room
  };
  Room room(int job, int kind) const;

  // The row for that many replicas: on_one() takes the node with the fewest free resources,
  // on_several() as few nodes as possible, at least two. Empty if they do not fit. O(nodes of that
  // kind).
  PolluxRow on_one(int job, int kind, int replicas) const;
  PolluxRow on_several(int job, int kind, int replicas) const;

 private:
  void account(int job, const PolluxRow& row, int64_t sign);

  const Snapshot* snapshot_;
  bool avoid_;
  std::vector<PolluxRow> rows_;
  std::vector<std::vector<int>> nodes_;  // by kind
  std::vector<int64_t> free_;            // node * resources + resource; negative where forced
  int64_t all_free_ = 0;
  std::vector<int> spanning_;  // jobs of several nodes, by node
};

}  // namespace adaptdl
