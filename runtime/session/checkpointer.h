#pragma once

// Decides when rank 0 writes a checkpoint, and writes it in the background. A thread copies the
// tensors during the next forward and backward passes, which change no parameter. The next update
// waits for the copy, never for the disk.

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

  // Starts a checkpoint of `tensors` unless one is still being written. Another thread may read the
  // tensors until release() returns.
  void start(CheckpointHeader header, std::vector<NamedTensor> tensors);

  // Waits for the copy; then the tensors may change.
  void release();

  // Writes a checkpoint and returns when it is on disk; false without a folder. Throws Error if the
  // write fails.
  bool write(CheckpointHeader header, std::vector<NamedTensor> tensors);

  void wait();

  // The newest valid checkpoint of an earlier run; appends descriptions of damaged ones to
  // `problems`.
  std::optional<LoadedCheckpoint> latest(std::vector<std::string>* problems) const;

 private:
  std::string directory_;
  int keep_;
  double interval_s_;
  std::function<void(const nlohmann::json&)> announce_;
  TimePoint last_ = Monotonic::now();
  SnapshotBuffer buffer_;
  std::shared_future<std::vector<TensorView>> copied_;
  std::atomic<double> held_up_s_{0};  // how long training waited for the newest checkpoint
  std::optional<AsyncCheckpointWriter> writer_;
};

// Copies a checkpoint's tensors into the live tensors with the same names. Throws Error if one is
// missing or has another shape or type.
void restore_tensors(const LoadedCheckpoint& checkpoint, const std::vector<NamedTensor>& tensors);

}  // namespace adaptdl
