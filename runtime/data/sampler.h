#pragma once

// Computes the next samples of a replica as a pure function of a position shared by all replicas.
//
// The order of a pass is a permutation of the samples that depends on (seed, epoch, pass) only.
// From position `index`, replica r of K takes the elements index + r, index + r + K, ... of that
// order. A micro-batch of m samples on each replica therefore covers [index, index + K m), and
// `index` then increases by K m: for any next K, r and m, no element of the pass is skipped or
// repeated. At the end of a pass, with fewer than K m elements left, the replicas' shares differ by
// one at most, and may be empty.
//
// Programs that normalise over a batch cannot compute one sample alone. So where m >= 2 and fewer
// than 2 K elements are left, only half as many replicas as elements share them, in the same way
// (5 on 3 replicas: 3, 2, 0). Where an optimizer step accumulates several micro-batches, and its
// last one would be a single element, the one before leaves it another; that of m = 2 takes it.
// One sample is alone only where m is 1, or where no other sample is left for the step.
// With `continuous`, a micro-batch of B = K m samples reads B columns: the samples in order, cut
// into B stretches of equal length, of which step t takes each one's sample t. So every place in
// the batch goes on where it ended, on the same replica, until B changes: then the columns are cut
// anew, and go on at the same share of their length, so that samples near the cuts are skipped or
// repeated, as in AdaptDL's AdaptiveBPTTIterator. Up to B - 1 samples at the end are left out.
// Where training is to be bitwise the same for any number of replicas, a step's samples are cut
// into a fixed number of shards instead, in the way of replicas, and each replica takes some of
// them. Source: petuum/adaptdl's ElasticSampler, which repeats samples so that all shares are
// equal.

#include <array>
#include <cstdint>
#include <vector>

namespace adaptdl::data {

// A place in the data, the same on all replicas; part of a checkpoint.
struct Position {
  uint64_t epoch = 0;
  uint64_t pass = 0;    // within the epoch: adaptive batches may use the data more than once
  int64_t index = 0;    // samples of this pass consumed by all replicas together
  uint64_t passes = 0;  // begun before this one, in all epochs

  bool operator==(const Position&) const = default;
};

// A permutation of [0, size) in constant memory: a generalized Feistel network (Black, Rogaway:
// Ciphers with Arbitrary Finite Domains, 2002) of 16 rounds on a rectangle of about
// sqrt(size) x sqrt(size), applied again while the result is outside the range. The numbers are
// part of the checkpoint format: the same arguments give the same order in every version and on
// every machine.
class Permutation {
 public:
  // Requires: size >= 1.
  Permutation(int64_t size, uint64_t seed, uint64_t epoch, uint64_t pass);

  // Requires: 0 <= i < size. About 0.15 us.
  int64_t operator()(int64_t i) const;
  // The i of which operator() gives `of`. Requires: 0 <= of < size.
  int64_t inverse(int64_t of) const;

 private:
  static constexpr int kRounds = 16;
  uint64_t size_, left_, right_;
  std::array<uint64_t, kRounds> keys_;
};

// The position at the start of the pass or epoch that follows `at`'s pass.
Position next_pass(const Position& at);
Position next_epoch(const Position& at);

// The seed of what is drawn for a sample in a pass. The same for any replicas and threads, in every
// version and on every machine, as the permutation.
uint64_t sample_seed(uint64_t seed, const Position& pass, int64_t sample);

enum class AfterPass {
  stop,        // the position stays at the end; there is no next micro-batch
  next_pass,   // epoch e, pass p + 1, index 0
  next_epoch,  // epoch e + 1, pass 0, index 0
};

struct SamplerOptions {
  uint64_t seed = 0;
  bool shuffle = true;      // false: the identity in every pass
  bool continuous = false;  // as above; then shuffle is without effect
  bool drop_last = false;   // drop the last samples of a pass if they are fewer than K m; a pass
                            // with fewer samples than one micro-batch is still used
  AfterPass after = AfterPass::stop;
};

// Consecutive shards of a step.
struct ShardRange {
  int first = 0, count = 0;
  bool operator==(const ShardRange&) const = default;
};

// The shards of one replica: as many for each, or one fewer. More replicas than shards leave some
// without any, but not rank 0. Requires: shards >= 1, 0 <= rank < replicas.
ShardRange shards_of(int shards, int replicas, int rank);

// The extent of one micro-batch over all replicas, or of one step over all its shards.
struct Step {
  Position from;           // start (in a new pass, if `after` says so)
  Position next;           // start of the following micro-batch
  int sharers = 1;         // replicas (or shards) that have samples, the lowest ranks
  int rank = 0;            // of this replica, or number of the shard
  int64_t samples = 0;     // of this one; 0 is possible at the end of a pass
  int64_t consumed = 0;    // of all: the increase of `index`
  bool ends_pass = false;  // the last micro-batch of its pass
};

// Immutable and thread-safe.
class Sampler {
 public:
  // Requires: samples >= 1.
  Sampler(int64_t samples, SamplerOptions options);

  int64_t samples() const { return samples_; }
  const SamplerOptions& options() const { return options_; }

  // The micro-batch at `position` for replica `rank` of `replicas` with `atomic_batch` samples on
  // each. `more`: another one of the same optimizer step follows, if the pass has samples for it.
  // samples == consumed == 0 with ends_pass: the pass is over and `after` is stop.
  // Requires: 0 <= rank < replicas, atomic_batch >= 1, index >= 0. O(1).
  Step step(const Position& position, int replicas, int rank, int64_t atomic_batch,
            bool more = false) const;

  // Shard number `shard` of the step of `batch` samples at `position`, fewer at the end of a pass.
  // The shards' shares differ by one at most; with fewer than two samples for each, fewer shards
  // share them, if the batch has more samples than shards. A function of these arguments alone.
  // Requires: 0 <= shard <= shards, of which the last has no samples; batch >= 1; not continuous.
  Step shard(const Position& position, int shards, int shard, int64_t batch) const;

  // The samples of this replica or shard, in order.
  std::vector<int64_t> indices(const Step& step) const;

 private:
  bool over(int64_t index, int64_t whole) const;
  Step begin(const Position& position, int rank, int64_t whole) const;
  Step share(Step step, int64_t most, bool pairs, int64_t whole) const;
  Step continuous_step(Step step, int64_t replicas, int64_t atomic) const;
  Position following_pass(const Position& at) const;

  int64_t samples_;
  SamplerOptions options_;
};

}  // namespace adaptdl::data
