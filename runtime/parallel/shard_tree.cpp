#include "runtime/parallel/shard_tree.h"

#include <cstdint>

namespace adaptdl {

int ShardTree::push(TreeNode node) {
  nodes_.push_back(node);
  int sums = 0;
  for (;;) {
    TreeNode& last = nodes_.back();
    const bool left = last.index % 2 == 0;
    // Its parent has no other child.
    if (left && last.index > 0 && (int64_t{last.index} + 1) << last.level >= shards_) {
      last = {last.level + 1, last.index / 2};
      continue;
    }
    const TreeNode sibling{last.level, last.index - 1};
    if (left || nodes_.size() < 2 || nodes_[nodes_.size() - 2] != sibling) return sums;
    nodes_.pop_back();
    nodes_.back() = {sibling.level + 1, sibling.index / 2};
    ++sums;
  }
}

std::vector<TreeNode> tree_nodes(int shards, int first, int count) {
  ShardTree tree(shards);
  for (int shard = first; shard < first + count; ++shard) tree.push({0, shard});
  return tree.nodes();
}

}  // namespace adaptdl
