#pragma once

// Reads one replica's micro-batches ahead of training, on background threads.
//
// Invariants
//  1. Micro-batches are in the sampler's order for any number of threads.
//  2. At most `ready_batches` are being read or ready.
//  3. A read started before a configure() is never delivered after it.
//  4. Of data that a program reads itself, Dataset::fetch() is called in the order of the batches.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/data/sampler.h"

namespace adaptdl::data {

// One tensor of a micro-batch. The memory returns to the loader's pool for reuse when the last copy
// of `memory` is destroyed; it may outlive the loader. As a tensor, without a copy:
//   at::from_blob(buffer.memory.get(), buffer.shape, [keep = buffer.memory](void*) {}, type);
struct Buffer {
  std::shared_ptr<std::byte> memory;  // aligned to 64 bytes; null if bytes is 0
  size_t bytes = 0;
  DType dtype = DType::float32;
  std::vector<int64_t> shape;  // the samples first
};

struct Batch {
  std::vector<Buffer> columns;    // in the data set's order
  std::shared_ptr<void> fetched;  // in their place, of a data set without columns
  Step step;                      // samples, its position, and the position of the next one
};

struct LoaderOptions {
  int threads = 1;        // 0: next() reads on the caller's thread
  int ready_batches = 2;  // >= 1
  // The allocator of batches, e.g. of page-locked memory for a GPU; set both or none.
  // allocate(bytes) returns memory aligned to 64 bytes or throws; any thread calls both.
  std::function<void*(size_t)> allocate;
  std::function<void(void*)> release;
};

class Loader {
 public:
  // `dataset` and `sampler` must have the same number of samples. Reading starts with the first
  // configure().
  Loader(Dataset dataset, const Sampler& sampler, const LoaderOptions& options);
  // Waits for the threads, which stop after reading at most about a megabyte more. No other call
  // may be running.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  const Dataset& dataset() const;
  const Sampler& sampler() const;

  // From now on reads ahead from `position` for replica `rank` of `replicas`; batches read for
  // other settings are discarded. An optimizer step takes `at_once` micro-batches or fewer, at the
  // end of a pass, and begins at `position`. Does not wait for running reads; takes microseconds.
  // If settings and position are those of the next batch anyway, it keeps the ready batches.
  // Requires: 0 <= rank < replicas, atomic_batch >= 1, at_once >= 1.
  void configure(const Position& position, int replicas, int rank, int64_t atomic_batch,
                 int at_once = 1);

  // The same for a replica that takes shards of each step of `batch` samples (Sampler::shard): each
  // is a micro-batch of its own, all of a step before those of the next.
  // Requires: 1 <= range.count, and the range within `shards`.
  void configure_shards(const Position& position, int shards, ShardRange range, int64_t batch);

  // Returns the next micro-batch, and waits for it if necessary; nothing if the pass is over and
  // the sampler stops there. Throws Error if reading failed, in every call until configure().
  // configure() and next() must be called by the same thread.
  std::optional<Batch> next();

  // Start of the next batch (after applying the sampler's rule for the end of a pass).
  Position position() const;

  // Seconds that next() has waited so far.
  double waited_s() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace adaptdl::data
