#pragma once

// How many nodes a cluster that may grow and shrink should have for its jobs (Pollux, section
// 4.2.3): so many that accelerators are neither wasted on jobs that hardly gain by them, nor
// missing where they would bring much.

#include <string>

#include "core/policy/pollux/pollux.h"

namespace adaptdl {

// Utility of a size: sum over jobs of the goodput that they reach in a cluster of that size, each
// against one replica's, divided by the cluster's resources[0]; about 1 where every accelerator
// brings as much as a job's first, 0 where nothing runs. Sizes inside the band are left alone.
struct UtilityBand {
  double low = 0.35, high = 0.65;  // 0 <= low < high
};

struct ClusterSizeWish {
  int nodes = 0;
  double utility = 0;  // at that size
  std::string why;     // one sentence without a full stop
};

// The wished number of nodes like `node`, between min_nodes >= 0 and max_nodes >= min_nodes. A size
// outside the band is replaced by the smallest whose utility is at most the band's middle (by
// bisection; utility falls with size but for small steps). Present allocations, ages and costs of
// restarts do not count: how to get there is the policy's matter. Without jobs: min_nodes. About
// log2(max_nodes) calls of the policy, each with an equal part of the budget's work. Pure. Throws
// Error for a snapshot that check_snapshot refuses, a node without resources[0] or with another
// number of resources, bounds or a band that do not fit together.
ClusterSizeWish wish_cluster_size(const Snapshot& snapshot, const NodeSnapshot& node, int min_nodes,
                                  int max_nodes, const PolluxOptions& options = {},
                                  const UtilityBand& band = {}, const SearchBudget& budget = {});

}  // namespace adaptdl
