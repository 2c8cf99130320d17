#pragma once

// One all_reduce of many bytes between hosts. Each chunk of the data has an owner, a host:
//  1. The lanes of each host add up their chunk in shared memory (sum_lanes).
//  2. The leader of a host that does not own the chunk sends this sum to the owner (send).
//  3. The owner's leader receives them, and its lanes add all, in the order of the hosts
//  (sum_hosts).
//  4. It sends the result to all hosts, whose leaders receive it (copy_out).
// A round has parts() chunks of each owner. The sums of a round leave while the results of the
// round before arrive. A host of a single lane has nothing to share: it sends from the caller's
// data, and receives into them.
//
// The sum of a host may exceed what f16 holds where the average does not: for this its lanes divide
// it by a power of two, the same on all hosts, which changes no other result, but for the last bits
// of the least values.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/comm/cpu/host_group.h"
#include "runtime/comm/cpu/layout.h"
#include "runtime/comm/cpu/uplink.h"

namespace adaptdl::comm {

class LargeAllReduce {
 public:
  // Borrows all. `call`: the collective's number. `uplink`: used at lane 0 only.
  LargeAllReduce(const Layout& layout, HostGroup& local, Uplink& uplink, uint64_t call, void* data,
                 size_t count, Type type, Op op);

  void run();  // once

 private:
  struct Chunk {
    uint64_t number;  // on this host
    int owner;
    uint64_t index;  // on all hosts
    size_t begin, count;
  };

  Chunk chunk_at(uint64_t i) const;
  bool leader() const { return layout_.lane == 0; }
  bool alone() const { return local_.lanes() == 1; }
  bool owns(const Chunk& chunk) const { return chunk.owner == layout_.host; }
  uint8_t* data_of(const Chunk& chunk) const { return data_ + chunk.begin * element_; }
  uint8_t* sum_of(const Chunk& chunk) const;  // over this host's lanes, later over all
  uint8_t* sum_from(int host, const Chunk& own) const;

  // The steps, in the order in which a chunk goes through them.
  void copy_in(const Chunk& chunk);
  void sum_lanes(const Chunk& chunk, const Share& share);
  void receive_sums(const Chunk& own);
  void sum_hosts(const Chunk& own, const Share& share);
  void wait_for_lanes(const Chunk& chunk);
  void send(const Chunk& chunk, int to, BlockKind kind);
  void copy_out(const Chunk& chunk);

  void receive(const Chunk& chunk, int from, BlockKind kind, uint8_t* to);
  void reduce_and_send(const Chunk& chunk);
  void reduce_range(uint64_t begin, uint64_t end);
  void copy_out_range(uint64_t begin, uint64_t end);

  const Layout& layout_;
  HostGroup& local_;
  Segment& segment_;
  Uplink& uplink_;
  const uint64_t call_;
  uint8_t* const data_;
  const size_t count_, element_;
  const Type type_;
  const Op op_;
  const double lanes_divisor_, hosts_divisor_;  // of the sums over lanes and over hosts
  uint64_t chunks_ = 0, first_ = 0;
  size_t per_chunk_ = 0;           // elements
  std::vector<uint64_t> tickets_;  // by buffer: the last send from its result
  std::vector<const void*> sources_;
};

}  // namespace adaptdl::comm
