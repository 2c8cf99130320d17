#pragma once

// Maps configurations (how many replicas on how many nodes of a kind) to actual nodes, with as few
// changes as possible.

#include <map>
#include <set>
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

// A partial allocation that is always feasible, with at most one job of several nodes on each node.
// Borrows snapshot and kinds.
//
// In Sia's configurations sizes are powers of two, or whole nodes. If the nodes of a kind are
// equal, hold a power of two, and only GPUs are scarce, then place() with moves succeeds whenever
// there are enough GPUs: every job of the same size or larger takes a multiple of that size on each
// node, so some node has enough free GPUs once the smaller jobs there are moved.
class Packing {
 public:
  Packing(const Snapshot& snapshot, const NodeKinds& kinds);

  // Takes exactly these nodes for the job. Returns false without changes if that is not feasible.
  // `fixed`: the job is not moved later.
  bool keep(int job, const NodeList& nodes, bool fixed = false);

  // Takes the nodes with the fewest free GPUs on which the job fits; false if there are none.
  // O(log nodes) for each node taken if GPUs are the only resource; with others O(groups of nodes
  // that have the same free resources).
  bool place(int job, const Configuration& configuration);

  // What each job loses by a move, >= 0, in any unit; 1 by default.
  void set_moving_costs(std::vector<double> costs) { moving_costs_ = std::move(costs); }

  // As place(). If that fails, it removes jobs from nodes where they are smaller than this job
  // would be: those that lose least, as few as possible, on the best of the some hundred nodes with
  // most free GPUs where that helps. The removed jobs then have no nodes; their indices are
  // appended to `moved`. O(nodes) if there are no such nodes.
  bool place_moving(int job, const Configuration& configuration, std::vector<int>& moved);

  // Takes the job, which has nodes and was not kept as fixed, from them.
  void drop(int job);

  const NodeList& nodes(int job) const { return nodes_[static_cast<size_t>(job)]; }
  const FreeResources& free() const { return free_; }
  // Whether a job of several nodes may come to the node: none is there.
  bool takes_distributed(int node) const { return distributed_[static_cast<size_t>(node)] < 0; }

 private:
  // What is free on a node, by resource, and last whether jobs of several nodes keep off it because
  // one is there: 0 then, else 1.
  using Free = std::vector<int64_t>;
  using Groups = std::map<Free, std::set<int>>;  // nodes that have the same

  struct Offer {  // a node that could hold some replicas of a job
    int node = 0;
    std::vector<int> moved;  // jobs that must leave
    double cost = 0;         // what they lose
    int64_t moved_gpus = 0;
    int64_t spare = 0;  // GPUs free before
  };
  // A share for which no moves make room on so many nodes. More replicas on a node fail too, and
  // smaller ones, before which fewer jobs leave. Stays true until a job at least as large leaves a
  // node: smaller ones count as gone, and whoever comes takes room.
  struct Hopeless {
    int kind = 0, nodes = 0;
    Free needed;
    int64_t size = 0;
  };
  Free needed_by(int job, const Configuration& configuration) const;
  bool hopeless(int job, const Configuration& configuration) const;
  void give_up(int job, const Configuration& configuration);
  Free free_on(int node) const;
  void leave_group(int node);
  void join_group(int node);
  std::vector<int> nodes_with_room(int job, const Configuration& configuration) const;
  std::vector<Offer> offers_by_moves(int job, const Configuration& configuration,
                                     const std::vector<int>& with_room);
  std::vector<int> leavers(int job, int node, int replicas);
  void take(int job, const NodeList& nodes, bool fixed);
  void take_shares(int job, const Configuration& configuration, std::vector<int> nodes);
  int64_t size_of(int job, int64_t replicas) const;
  double moving_cost(int job) const;

  const Snapshot& snapshot_;
  const NodeKinds& kinds_;
  FreeResources free_;
  std::vector<NodeList> nodes_;            // by job
  std::vector<double> moving_costs_;       // by job
  std::vector<std::vector<int>> movable_;  // by node: jobs only on this node, and not fixed
  std::vector<int> distributed_;           // by node: the job of several nodes on it, or -1
  std::vector<Groups> groups_;             // by kind
  std::vector<Hopeless> hopeless_;
};

}  // namespace adaptdl
