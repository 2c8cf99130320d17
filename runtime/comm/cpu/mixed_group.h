#pragma once

// The collectives of a group that spans several hosts: shared memory within each, TCP between the
// lane 0 of each ("leaders").
//
// Steps and bytes, H hosts, N bytes:
//  large all_reduce: every chunk has an owner. Each host sends the sum of its lanes to the owner,
//    which adds all, in the order of the hosts, and sends the result to all (reduce-scatter and
//    all-gather, without a ring). Each host sends and receives 2N (H-1)/H, the least possible
//    (Patarasuk and Yuan 2009), in two steps, however many hosts there are (large_all_reduce.h).
//  small all_reduce, all_gather, barrier: all blocks in ceil(log2 H) rounds, doubling the distance
//    (Bruck et al. 1997); every rank then reduces all blocks in rank order.
//  broadcast: a chain of hosts, chunk by chunk; for a single chunk, a binomial tree.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "runtime/comm/cpu/host_group.h"
#include "runtime/comm/cpu/layout.h"
#include "runtime/comm/cpu/uplink.h"

namespace adaptdl::comm {

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
  size_t host_size(int host) const { return layout_.hosts[static_cast<size_t>(host)].size(); }
  void exchange(BlockKind kind, size_t rank_bytes, std::vector<uint8_t>& blocks);
  // Every rank's block, in the order of hosts and lanes, on every rank.
  std::vector<uint8_t> gather(const void* mine, size_t bytes);

  const Layout& layout_;
  HostGroup& local_;
  Segment& segment_;
  Uplink& uplink_;
  uint64_t call_ = 0;
  std::deque<std::pair<uint64_t, uint64_t>> unsent_;  // (chunk, ticket), oldest first
};

}  // namespace adaptdl::comm
