#include "core/policy/configuration.h"

#include <algorithm>
#include <cstdint>

namespace adaptdl {
namespace {

void add_single_node(const KindRoom& room, int kind, int least, int most,
                     std::vector<Configuration>& all) {
  const int largest = std::min(room.single, most);
  for (int64_t replicas = 1; replicas < room.per_node; replicas *= 2) {
    if (replicas >= least && replicas <= largest) {
      all.push_back({kind, 1, static_cast<int>(replicas)});
    }
  }
  if (room.per_node >= least && room.per_node <= largest) all.push_back({kind, 1, room.per_node});
}

// The fewest nodes that can hold so many replicas in equal shares; 0: there are none.
int fewest_nodes(const KindRoom& room, int replicas) {
  if (replicas <= room.single) return 1;
  int64_t nodes = 0;
  for (const KindRoom::Shares& next : room.shares) {
    const int64_t needed = (replicas - 1) / next.replicas + 1;
    nodes += next.nodes;
    if (needed <= nodes) return static_cast<int>(needed);
  }
  return 0;
}

}  // namespace

std::vector<Configuration> list_configurations(std::span<const KindRoom> kinds, int least,
                                               int most) {
  std::vector<Configuration> all;
  for (size_t k = 0; k < kinds.size(); ++k) {
    const KindRoom& room = kinds[k];
    if (room.per_node < 1) continue;
    const auto kind = static_cast<int>(k);
    add_single_node(room, kind, least, most, all);
    for (int nodes = 2; nodes <= std::min(room.whole_nodes, most / room.per_node); ++nodes) {
      if (nodes * room.per_node >= least) all.push_back({kind, nodes, nodes * room.per_node});
    }
  }
  if (!all.empty()) return all;
  for (size_t k = 0; k < kinds.size(); ++k) {
    const int nodes = fewest_nodes(kinds[k], least);
    if (nodes > 0) all.push_back({static_cast<int>(k), nodes, least});
  }
  return all;
}

}  // namespace adaptdl
