#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace adaptdl {

namespace comm {
class Communicator;
}

// The sum of a step's shards in the order of their tree (shard_tree.h), in place of parts[0] and
// the same on all replicas. `parts`: the nodes of this replica's shards_of(), flat and contiguous
// in the host's memory; one without shards gives one tensor, of any values. All are of the same
// type and size.
// Collective; throws comm::Aborted. Two replicas with a node each exchange it as an all-reduce
// does; others gather all nodes, at most 2 log2(shards) of each, and add them all.
void sum_by_tree(comm::Communicator& communicator, int shards,
                 const std::vector<at::Tensor>& parts);

}  // namespace adaptdl
