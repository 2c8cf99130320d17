#pragma once

// Reads one replica's micro-batches ahead of training, in threads.
//
// Invariants
//  1. Micro-batches come in the sampler's order, whatever the number of threads.
//  2. At most `ready_batches` are being read or lie ready.
//  3. What was begun before a configure() is never delivered after it.

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

// One tensor of a micro-batch. The memory goes back to the loader's pool, and is used again, when
// the last copy of `memory` goes; it may outlive the loader. As a tensor, without copying:
//   at::from_blob(buffer.memory.get(), buffer.shape, [keep = buffer.memory](void*) {}, type);
struct Buffer {
  std::shared_ptr<std::byte> memory;  // aligned to 64 bytes; null if bytes is 0
  size_t bytes = 0;
  DType dtype = DType::float32;
  std::vector<int64_t> shape;  // the samples first
};

struct Batch {
  std::vector<Buffer> columns;  // in the data set's order
  Step step;                    // samples, where it came from, where the next one starts
};

struct LoaderOptions {
  int threads = 1;        // 0: next() reads by itself
  int ready_batches = 2;  // >= 1
  // Where batches live; both or none (page-locked memory for a GPU, say). allocate(bytes) gives
  // memory aligned to 64 bytes or throws; both are called from any thread.
  std::function<void*(size_t)> allocate;
  std::function<void(void*)> release;
};

class Loader {
 public:
  // `dataset` and `sampler` must agree in the number of samples. Nothing is read before the first
  // configure().
  Loader(Dataset dataset, Sampler sampler, LoaderOptions options);
  // Waits for the threads, which give up within about a megabyte of reading. No call may be under
  // way.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  const Dataset& dataset() const;
  const Sampler& sampler() const;

  // Reads ahead from `position` for replica `rank` of `replicas` from now on; what was read for
  // other settings is thrown away. Does not wait for reads under way; takes microseconds. With the
  // settings and the position at which the next batch is anyhow, it keeps what is ready.
  // Requires: 0 <= rank < replicas, atomic_batch >= 1.
  void configure(const Position& position, int replicas, int rank, int64_t atomic_batch);

  // The next micro-batch, waiting for it if need be; nothing when the pass is over and the sampler
  // stops there. Throws Error when reading it failed, again and again until configure() is called.
  // One thread calls configure() and next().
  std::optional<Batch> next();

  // Where the next batch starts (the sampler's rule for a pass's end applied).
  Position position() const;

  // Seconds that next() has waited so far.
  double waited_s() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace adaptdl::data
