#pragma once

// Puts configurations (how many replicas on how many nodes of a kind) on actual nodes, changing as
// little as possible.

#include <string>
#include <vector>

#include "core/policy/configuration.h"
#include "core/policy/feasibility.h"

namespace adaptdl {

// The kinds of accelerators of a snapshot, in the order of their names.
struct NodeKinds {
  explicit NodeKinds(const Snapshot& snapshot);

  std::vector<std::string> names;
  std::vector<std::vector<int>> nodes;  // by kind
  std::vector<int> of_node;

  size_t size() const { return names.size(); }
};

// A partial allocation that is feasible at all times, with at most one job of several nodes on each
// node. Borrows snapshot and kinds.
//
// Sizes are powers of two, or whole nodes, in Sia's configurations. If the nodes of a kind are
// alike and hold a power of two, and GPUs are all that is scarce, then place() with moves succeeds
// whenever the GPUs suffice: everything of the same size or larger takes a multiple of it on each
// node, so that some node has room for it once the smaller jobs there are moved.
class Packing {
 public:
  Packing(const Snapshot& snapshot, const NodeKinds& kinds);

  // Takes exactly these nodes for the job; false, changing nothing, if that is not feasible.
  // `fixed`: nothing moves it later.
  bool keep(int job, const NodeList& nodes, bool fixed = false);

  // Takes nodes for the job, those with least room to spare; false if there are none.
  bool place(int job, const Configuration& configuration);

  // What each job loses by being moved, >= 0, in any unit; 1 until it is said.
  void set_moving_costs(std::vector<double> costs) { moving_costs_ = std::move(costs); }

  // The same, and if that fails moves jobs off nodes that are smaller there than the job would be:
  // those that lose least, as few as possible. They have no nodes then: their indices are appended
  // to `moved`.
  bool place_moving(int job, const Configuration& configuration, std::vector<int>& moved);

  const NodeList& nodes(int job) const { return nodes_[static_cast<size_t>(job)]; }
  const FreeResources& free() const { return free_; }

 private:
  struct Offer {  // of a node, to hold some replicas of a job
    int node = 0;
    std::vector<int> moved;  // who has to leave
    double cost = 0;         // what they lose
    int64_t moved_gpus = 0;
    int64_t spare = 0;  // GPUs free before
  };
  bool candidate(int node, const Configuration& configuration) const;
  std::vector<int> leavers(int job, int node, int replicas);
  bool choose(int job, const Configuration& configuration, bool moving, std::vector<int>* moved);
  void take(int job, const NodeList& nodes, bool fixed);
  void drop(int job);
  int64_t size_of(int job, int64_t replicas) const;
  double moving_cost(int job) const;

  const Snapshot& snapshot_;
  const NodeKinds& kinds_;
  FreeResources free_;
  std::vector<NodeList> nodes_;            // by job
  std::vector<double> moving_costs_;       // by job
  std::vector<std::vector<int>> movable_;  // by node: jobs that are on it alone, and not fixed
  std::vector<int> distributed_;           // by node: the job of several nodes on it, or -1
};

}  // namespace adaptdl
