#pragma once

// Writes checkpoints beside training, on one thread of low priority. Torch-free.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/checkpoint/store.h"

namespace adaptdl {

struct CheckpointContents {
  CheckpointHeader header;
  std::vector<TensorView> tensors;    // borrowed until the result is reported
  std::shared_ptr<const void> owner;  // optional: of what they borrow; released after writing
};

struct CheckpointResult {
  int64_t step = -1;     // -1: the job failed before it said
  std::string path;      // "" after a failure
  uint64_t bytes = 0;    // of tensors
  double seconds = 0.0;  // of writing
  std::string error;     // "" = written
};

// Thread-safe. At most one checkpoint is under way.
class AsyncCheckpointWriter {
 public:
  // Gives what to write; runs on the writer's thread. It may wait for a copy from a device, or make
  // the snapshot itself. Throws Error when it cannot.
  using Job = std::function<CheckpointContents()>;

  // Called on the writer's thread for each checkpoint written, and for a failure when the attempt
  // before it did not fail: a disk that stays full is reported once. Training is not concerned.
  // Must not throw, nor call wait().
  using OnResult = std::function<void(const CheckpointResult& result)>;

  AsyncCheckpointWriter(CheckpointStore store, OnResult on_result);
  // Waits for the checkpoint under way.
  ~AsyncCheckpointWriter();
  AsyncCheckpointWriter(const AsyncCheckpointWriter&) = delete;
  AsyncCheckpointWriter& operator=(const AsyncCheckpointWriter&) = delete;

  // Starts writing and returns at once. False, and nothing happens, while one is under way.
  bool submit(Job job);

  bool busy() const;

  // Returns once nothing is under way: the outcome of the last checkpoint (also of a failure that
  // was not reported again), or one with step -1 and no error if there was none.
  CheckpointResult wait();

 private:
  void loop();
  CheckpointResult write(const Job& job);

  CheckpointStore store_;  // used by the thread only
  OnResult on_result_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Job job_;  // set: not yet taken by the thread
  bool busy_ = false;
  bool quit_ = false;
  bool failing_ = false;
  CheckpointResult last_;
  std::thread thread_;  // last: starts when the rest is there
};

}  // namespace adaptdl
