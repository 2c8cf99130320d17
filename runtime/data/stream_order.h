#pragma once

// The order in which a pass reads a stream: samples that can only be read in order, in shards.
//
// The shards are permuted and dealt out to a few lanes, each to the one with the fewest samples so
// far. The pass takes one sample of each lane in turn, so that shards are read side by side. In a
// lane, each block of samples is permuted; the blocks of all lanes together are the shuffle buffer.
// That blocks are of single lanes has two reasons: replica r of K takes every K-th place, so that
// it reads only the lanes of its own where K and the number of lanes have a common divisor; and
// lanes begin their blocks at different times, so that the reading is spread over the pass.
//
// A place of the pass and a sample each determine the other, as a pure function of sizes, options
// and (seed, epoch, pass). The numbers are part of the checkpoint format, as the permutation's.

#include <cstdint>
#include <vector>

#include "runtime/data/sampler.h"

namespace adaptdl::data {

struct StreamOptions {
  bool shuffle = true;         // false: shard by shard, as they are
  int64_t shuffle_buffer = 0;  // samples that a block of all lanes has, about; >= 0
  int shards_at_once = 1;      // lanes, at most; >= 1
};

// Immutable and thread-safe. Takes 16 bytes for each shard.
class StreamOrder {
 public:
  struct LanePlace {
    int lane = 0;
    int64_t at = 0;  // in the order in which the lane is read
  };
  struct ShardPlace {
    int64_t shard = 0, sample = 0;
  };

  // `sizes`: of each shard, in samples, >= 0. Requires: their sum is at least 1 and fits.
  StreamOrder(const std::vector<int64_t>& sizes, const StreamOptions& options, uint64_t seed,
              const Position& pass);

  int64_t samples() const { return samples_; }
  int lanes() const { return static_cast<int>(lanes_.size()); }

  // Where the sample of a place in the pass is read. Requires: 0 <= place < samples(). Less than a
  // microsecond, as the other functions.
  LanePlace lane_place(int64_t place) const;
  // And back.
  int64_t place(const LanePlace& at) const;
  ShardPlace shard_place(const LanePlace& at) const;
  // The first sample of its block.
  int64_t block_begin(const LanePlace& at) const { return block_of(at).begin; }

 private:
  struct Lane {
    std::vector<int64_t> shards, ends;  // ends[i]: of shards[i], in samples from the lane's start
    int64_t samples = 0;
  };
  // Rounds in which the same lanes have samples.
  struct Stretch {
    int64_t first_round = 0, first_place = 0;
    std::vector<int> lanes;
  };
  struct Block {
    int64_t begin = 0, end = 0;
    uint64_t seed = 0;
  };
  Block block_of(const LanePlace& at) const;

  uint64_t seed_;
  Position pass_;
  int64_t samples_ = 0, block_ = 0;  // samples of a lane's block; 0 or 1: no shuffling
  std::vector<Lane> lanes_;
  std::vector<Stretch> stretches_;
};

}  // namespace adaptdl::data
