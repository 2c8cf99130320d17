#pragma once

// The number of nodes that an elastic cluster should have for its jobs (Pollux, section 4.2.3): the
// cluster should neither waste accelerators on jobs that gain little, nor lack accelerators that
// would bring much.

#include <string>

#include "core/policy/pollux/pollux.h"

namespace adaptdl {

// Utility of a size: the sum over jobs of their goodput in a cluster of that size relative to one
// replica's, divided by the cluster's resources[0]. It is about 1 if every accelerator brings as
// much as a job's first, and 0 if no job runs. A size whose utility is inside the band stays.
struct UtilityBand {
  double low = 0.35, high = 0.65;  // 0 <= low < high
};

struct ClusterSizeWish {
  int nodes = 0;
  double utility = 0;  // at that size
  std::string why;     // one sentence without a full stop
};

// The wanted number of nodes like `node`, between min_nodes >= 0 and max_nodes >= min_nodes. A size
// outside the band is replaced by the smallest size whose utility is at most the band's middle (by
// bisection; utility falls with size except for small steps). Ignores present allocations, ages and
// restart costs, because the policy decides how to get there. Without jobs: min_nodes. Calls the
// policy about log2(max_nodes) times, each with an equal part of the budget's work. Pure. Throws
// Error for a snapshot that check_snapshot rejects, a node without resources[0] or with another
// number of resources, and inconsistent bounds or bands.
ClusterSizeWish wish_cluster_size(const Snapshot& snapshot, const NodeSnapshot& node, int min_nodes,
                                  int max_nodes, const PolluxOptions& options = {},
                                  const UtilityBand& band = {}, const SearchBudget& budget = {});

}  // namespace adaptdl
