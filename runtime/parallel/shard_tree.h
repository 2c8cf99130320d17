#pragma once

// The one order in which the gradients of a step's shards are added, for any number of replicas:
// a binary tree over the shards. Floating-point sums depend on their order, so the same tree gives
// the same bits.
//
// Node (level, index) is the sum of shards index * 2^level and on, 2^level of them or, at the end,
// fewer: that of its children 2 index and 2 index + 1 one level below, or the left one's alone
// where there are no more shards. A replica adds what lies in its own range; the few largest nodes
// that do are all that it has to send.

#include <vector>

namespace adaptdl {

struct TreeNode {
  int level = 0, index = 0;
  bool operator==(const TreeNode&) const = default;
};

// The largest nodes of a range of shards that grows on the right. Pure data.
class ShardTree {
 public:
  // Requires: shards >= 1, of the whole step.
  explicit ShardTree(int shards) : shards_(shards) {}

  // Adds what follows on the right: a shard (level 0), or a node of another range. Returns how
  // often the last node of the list must then be added to the one before it, which becomes their
  // parent.
  int push(TreeNode node);

  // Left to right; a single one if the range is the whole step.
  const std::vector<TreeNode>& nodes() const { return nodes_; }

 private:
  int shards_;
  std::vector<TreeNode> nodes_;
};

// Those of `count` shards from `first` on.
std::vector<TreeNode> tree_nodes(int shards, int first, int count);

}  // namespace adaptdl
