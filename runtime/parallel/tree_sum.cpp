#include "runtime/parallel/tree_sum.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "runtime/comm/communicator.h"
#include "runtime/data/sampler.h"
#include "runtime/parallel/shard_tree.h"
#include "runtime/parallel/tensor_math.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

// What a replica sends at once: all replicas' fit into a processor's cache.
constexpr size_t kGatheredAtOnce = size_t{1} << 18;  // bytes

}  // namespace

void sum_by_tree(comm::Communicator& communicator, int shards,
                 const std::vector<at::Tensor>& parts) {
  const at::NoGradGuard no_grad;
  std::vector<std::vector<TreeNode>> nodes;
  size_t most = 1;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    const auto range = data::shards_of(shards, communicator.size(), rank);
    nodes.push_back(tree_nodes(shards, range.first, range.count));
    most = std::max(most, nodes.back().size());
  }
  const at::Tensor& result = parts.front();
  // a + b has one order only.
  if (nodes.size() == 2 && nodes[0].size() == 1 && nodes[1].size() == 1) {
    communicator.all_reduce(result.mutable_data_ptr(), static_cast<size_t>(result.numel()),
                            wire_type(result.scalar_type()), comm::Op::sum);
    return;
  }
  const size_t given = nodes[static_cast<size_t>(communicator.rank())].size();
  ADAPTDL_CHECK(parts.size() >= given);
  const auto element = static_cast<size_t>(result.element_size());
  const auto all_elements = static_cast<size_t>(result.numel());
  const size_t elements = std::min(all_elements, kGatheredAtOnce / most / element);
  std::vector<at::Tensor> rows;  // of every replica, `most` each
  const size_t of_replica = most * elements;
  const at::Tensor mine = at::empty({static_cast<int64_t>(of_replica)}, result.options());
  const at::Tensor all =
      at::empty({static_cast<int64_t>(of_replica * nodes.size())}, result.options());
  for (size_t begin = 0; begin < all_elements; begin += elements) {
    const size_t count = std::min(elements, all_elements - begin);
    auto* to = static_cast<char*>(mine.mutable_data_ptr());
    for (size_t i = 0; i < given; ++i) {
      const auto* from = static_cast<const char*>(parts[i].const_data_ptr());
      std::memcpy(to + i * count * element, from + begin * element, count * element);
    }
    communicator.all_gather(mine.const_data_ptr(), most * count * element, all.mutable_data_ptr());
    ShardTree tree(shards);
    rows.clear();
    for (size_t rank = 0; rank < nodes.size(); ++rank) {
      for (size_t i = 0; i < nodes[rank].size(); ++i) {
        rows.push_back(all.narrow(0, static_cast<int64_t>((rank * most + i) * count),
                                  static_cast<int64_t>(count)));
        for (int sums = tree.push(nodes[rank][i]); sums > 0; --sums) {
          rows[rows.size() - 2].add_(rows.back());
          rows.pop_back();
        }
      }
    }
    ADAPTDL_CHECK(rows.size() == 1);
    std::memcpy(static_cast<char*>(result.mutable_data_ptr()) + begin * element,
                rows.front().const_data_ptr(), count * element);
  }
}

}  // namespace adaptdl
