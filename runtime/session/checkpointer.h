#pragma once

// Rank 0's checkpoints: when, and how without holding up training. The tensors are copied on a
// thread while the next forward and backward run, which change no parameter; the next
// update waits for the copy, never for the disk.

#include <atomic>
#include <functional>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "runtime/checkpoint/async_writer.h"
#include "runtime/checkpoint/snapshot_buffer.h"
#include "runtime/optim/optimizer.h"

namespace adaptdl {

// Used from the training thread. A checkpointer without a folder does nothing.
class Checkpointer {
 public:
  // `announce` gets an event for each checkpoint written or failed, from the writer's thread.
  Checkpointer(std::string directory, int keep, double interval_s,
               std::function<void(const nlohmann::json& event)> announce);
  ~Checkpointer();

  bool due() const;

  // Begins a checkpoint of `tensors` unless one is still being written. The tensors may be read by
  // another thread until release() returns.
  void start(CheckpointHeader header, std::vector<NamedTensor> tensors);

  // Returns when the copy is done: tensors may change again.
  void release();

  // A checkpoint now, on disk when it returns; false without a folder. Throws Error when it cannot
  // be written.
  bool write(CheckpointHeader header, std::vector<NamedTensor> tensors);

  void wait();

  // What an earlier run left, newest that verifies; sentences about damaged ones in `problems`.
  std::optional<LoadedCheckpoint> latest(std::vector<std::string>* problems) const;

 private:
  std::string directory_;
  int keep_;
  double interval_s_;
  std::function<void(const nlohmann::json&)> announce_;
  TimePoint last_ = Monotonic::now();
  SnapshotBuffer buffer_;
  std::shared_future<std::vector<TensorView>> copied_;
  std::atomic<double> held_up_s_{0};  // of the newest checkpoint: training's wait for it
  std::optional<AsyncCheckpointWriter> writer_;
};

// Copies a checkpoint's tensors into live ones of the same names. Throws Error when one is missing
// or of another shape or type.
void restore_tensors(const LoadedCheckpoint& checkpoint, const std::vector<NamedTensor>& tensors);

}  // namespace adaptdl
