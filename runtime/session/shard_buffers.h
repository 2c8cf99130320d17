#pragma once

// A program's buffers (running statistics, counters) in a step that is cut into shards. The pass of
// each shard begins with those from before the step. Afterwards they become, as with as many
// replicas as shards, the mean over the shards that have samples, of integers the maximum: added in
// the shards' order, so the same bits for any number of replicas.

#include <cstdint>
#include <map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "adaptdl/program.h"
#include "runtime/session/saved_buffers.h"

namespace adaptdl {

namespace comm {
class Communicator;
}

// For the training thread, between SavedBuffers' save() and keep() or restore(). Borrows both.
class ShardBuffers {
 public:
  // `saved` must save every buffer before each step.
  ShardBuffers(Program& program, SavedBuffers& saved) : program_(program), saved_(saved) {}

  void begin_step() { changed_.clear(); }
  void begin_pass() { saved_.rewind(); }
  void end_pass(int shard);
  // Sets the program's buffers. `sharers`: the shards that have samples, the lowest of `shards`.
  // Collective, if there are buffers: one small gather, and another one if some have changed, of
  // all shards' values. A lone replica's communicator is null. Throws comm::Aborted.
  void combine(comm::Communicator* communicator, int shards, int sharers);

 private:
  Program& program_;
  SavedBuffers& saved_;
  std::map<size_t, std::map<int, at::Tensor>> changed_;  // by buffer and shard of this replica
};

}  // namespace adaptdl
