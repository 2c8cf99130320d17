#pragma once

// Data that can only be read in order, in shards such as files: a program's own streams.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "adaptdl/program_data.h"

namespace adaptdl {

// A place in an open shard.
class ShardReader {
 public:
  virtual ~ShardReader() = default;

  // The tensors of the next sample, on the CPU; none at the end of the shard. Each replica reads
  // samples of others, too, and one thread reads at a time: give what is cheap, such as the bytes
  // of a record, and leave decoding to the transform.
  virtual std::vector<at::Tensor> next() = 0;

  // Passes over the next `count` samples, >= 1; false if the shard ends before. By default calls
  // next(). Worth its own code where the place of a sample can be computed, or reading is not free.
  virtual bool skip(int64_t count);
};

// A stream in shards, larger than memory or without an end. One pass takes each sample once,
// whatever becomes of the replicas: the place in the pass is shared by all of them and part of
// checkpoints, and a replica opens shards near its place.
//
// The order of a pass depends on the settings' `seed`, the epoch and the pass: the shards are
// permuted, data.shards_at_once of them are read side by side, and samples are permuted in blocks
// of data.shuffle_buffer, of which this replica's are in memory. With data.shuffle: false, and in a
// validation, the shards come one after another as they are.
//
// All replicas must see the same shards and sizes, also after a resume. The library calls
// everything but collate() on one thread at a time, though not always the same one, ahead of
// training (data.prefetch_threads); a stream for the validation is another object. An exception
// counts as the death of this replica; the run ends with its message if another fails in the same
// step.
class StreamDataset : public ProgramDataset {
 public:
  virtual int64_t shards() const = 0;  // >= 1, numbered from 0; always the same

  // The samples that a pass takes of a shard, >= 0; always the same. Count them once and keep the
  // number, in an index or in the names of the files. A shard that ends before is an error.
  virtual int64_t size(int64_t shard) const = 0;

  // A reader whose next() gives sample `first`, >= 0, then the following ones.
  virtual std::unique_ptr<ShardReader> open(int64_t shard, int64_t first) const = 0;

  // Whether shards go on for ever. Then each pass goes on where the one before has ended: pass p
  // of the run, counted from 0, takes the samples from p * size(shard) on.
  virtual bool endless() const { return false; }

  // For messages, such as the path of a file. By default the number.
  virtual std::string name(int64_t shard) const;
};

// The files that the patterns match (*, ? and [], as in a shell), each once, in the order of their
// bytes, which is the same on all replicas. Relative to the working directory. Throws if a pattern
// matches none.
std::vector<std::string> shard_files(const std::vector<std::string>& patterns);

}  // namespace adaptdl
