#pragma once

// The collectives of a group that spans several hosts: shared memory within each, TCP between the
// lane 0 of each ("leaders").
//
// Steps and bytes, H hosts, N bytes:
//  large all_reduce: chunk by chunk, host 0 sends its sum to host 1, which adds its own, and so on.
//    The last host has the result and passes it on around the ring: last -> 0 -> 1 -> ... Each
//    host sends at most 2N and receives at most 2N, in both directions at once. The order of
//    summation is the order of the hosts (a ring that reduces rotated parts would send
//    2N (H-1)/H, but would sum each part in another order).
//  small all_reduce, all_gather, barrier: all blocks in ceil(log2 H) rounds, doubling the distance
//    (Bruck et al. 1997); every rank then reduces all blocks in rank order.
//  broadcast: a chain of hosts, chunk by chunk; for a single chunk, a binomial tree.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "runtime/comm/cpu/host_group.h"
#include "runtime/comm/cpu/uplink.h"

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
};

class MixedGroup {
 public:
  // Borrows all. `uplink`: used at lane 0 only.
  MixedGroup(const Layout& layout, HostGroup& local, Uplink& uplink);

  void begin(const Tag& tag);
  void all_reduce(void* data, size_t count, Type type, Op op);
  void all_gather(const void* mine, size_t bytes, void* all);
  void broadcast(void* data, size_t bytes, int root, bool keep);
  void barrier();

 private:
  bool leader() const { return layout_.lane == 0; }
  bool last_host() const { return layout_.host == layout_.host_count() - 1; }
  int host_at(int distance) const;  // around the ring; may be negative
  size_t host_size(int host) const { return layout_.hosts[static_cast<size_t>(host)].size(); }
  void exchange(BlockKind kind, size_t rank_bytes, std::vector<uint8_t>& blocks);
  // Every rank's block, in the order of hosts and lanes, on every rank.
  std::vector<uint8_t> gather(const void* mine, size_t bytes);
  void all_reduce_large(void* data, size_t count, Type type, Op op);

  const Layout& layout_;
  HostGroup& local_;
  Segment& segment_;
  Uplink& uplink_;
  uint64_t call_ = 0;
  std::deque<std::pair<uint64_t, uint64_t>> unsent_;  // (chunk, ticket), oldest first
};

}  // namespace adaptdl::comm
