#pragma once

// The collectives among the lanes of one host, through a Segment. Every lane calls the same
// functions in the same order. Each function takes as many chunks of the ring as it needs, so no
// barrier is needed between calls.
//
// Bytes moved per lane by a large all_reduce of N bytes over K lanes: N (K-1)/K copied in, N read
// from K places and N/K written while reducing its share, N (K-1)/K copied out. Each byte of the
// caller's memory is read and written once; the rest stays in the caches.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/cpu/segment.h"

namespace adaptdl::comm {

// The part [begin, end) of `count` elements that `lane` of `lanes` reduces; begin is a multiple of
// 64 bytes.
struct Share {
  size_t begin, end;
};
Share share_of(size_t count, size_t element_bytes, int lane, int lanes);

class HostGroup {
 public:
  // Borrows all. ranks: of the lanes, for messages; spin_ns: the longest time that a lane spins
  // before it sleeps.
  HostGroup(Segment& segment, const std::vector<int>& ranks, int lane, const AbortSignal& over,
            int64_t spin_ns);

  // Sets the collective that the following functions belong to.
  void begin(const Tag& tag) { tag_ = tag; }

  // As in Communicator, among the lanes. divisor: see reduce(). They throw Aborted if the
  // generation ends and Error if another lane is in a different collective.
  void all_reduce(void* data, size_t count, Type type, Op op, int divisor);
  void all_gather(const void* mine, size_t bytes, void* all);
  void broadcast(void* data, size_t bytes, int root, bool keep);
  void barrier();

  // The building blocks of these collectives.
  Segment& segment() { return segment_; }
  int lane() const { return lane_; }
  int lanes() const { return segment_.lanes(); }
  uint64_t take_chunks(uint64_t count);  // returns the number of the first
  template <typename Ready>
  void wait(int lane, Ready&& ready) {
    if (!segment_.wait(lane, over_, spin_, ready)) ended(lane);
  }
  void wait_free(uint64_t chunk);              // until this lane may write its slot
  void wait_posted(uint64_t chunk, int lane);  // also checks that it is the same collective
  void wait_posted_all(uint64_t chunk);
  void post(uint64_t chunk) { segment_.post(chunk, lane_, tag_); }
  void release(uint64_t chunk) { segment_.release(chunk, lane_); }

 private:
  [[noreturn]] void ended(int lane);
  [[noreturn]] void mismatch(int lane, const Tag& theirs);
  void all_reduce_small(void* data, size_t count, Type type, Op op, int divisor);
  void all_reduce_large(void* data, size_t count, Type type, Op op, int divisor);

  Segment& segment_;
  const std::vector<int>& ranks_;
  const int lane_;
  const AbortSignal& over_;
  SpinBudget spin_;
  Tag tag_;
  uint64_t next_chunk_ = 0;
  std::vector<uint64_t> seen_released_;  // by lane: the last count read, to avoid reads
  std::vector<const void*> sources_;
};

}  // namespace adaptdl::comm
