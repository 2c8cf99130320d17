#pragma once

// Which ranks of a group are on which host.

#include <cstdint>
#include <vector>

namespace adaptdl::comm {

// The host and lane of each rank. Hosts are ordered by their lowest rank, ranks within a host
// ascend.
struct Layout {
  uint64_t generation = 0;
  int rank = 0, size = 0;
  std::vector<std::vector<int>> hosts;  // ranks
  int host = 0, lane = 0;               // of this rank

  int lanes() const { return static_cast<int>(hosts[static_cast<size_t>(host)].size()); }
  int host_count() const { return static_cast<int>(hosts.size()); }
  // Around the ring of hosts; `distance` may be negative.
  int host_at(int distance) const {
    const int count = host_count();
    return ((host + distance) % count + count) % count;
  }

  // Of a large all_reduce: chunks of a round that each host owns, and of all; at most two rounds
  // are under way.
  uint64_t parts() const { return hosts.size() <= 16 ? 4 : hosts.size() <= 64 ? 2 : 1; }
  uint64_t round() const { return hosts.size() * parts(); }
};

}  // namespace adaptdl::comm
