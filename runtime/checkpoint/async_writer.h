#pragma once

// Writes checkpoints during training, on one thread of low priority. Torch-free.

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
  std::shared_ptr<const void> owner;  // optional: of the tensors; released after writing
};

struct CheckpointResult {
  int64_t step = -1;     // -1: the job failed before the step was known
  std::string path;      // "" after a failure
  uint64_t bytes = 0;    // of tensors
  double seconds = 0.0;  // of writing
  double cpu_s = 0.0;    // processor time of the writer's thread
  std::string error;     // "" = written
  std::string tensor;    // the one that is not finite, if that is the error
};

// Thread-safe. Writes at most one checkpoint at a time.
class AsyncCheckpointWriter {
 public:
  // Returns what to write; runs on the writer's thread. It may wait for a copy from a device, or
  // take the snapshot itself. Throws Error on failure.
  using Job = std::function<CheckpointContents()>;

  // Called on the writer's thread for each checkpoint written, and for a failure if the previous
  // attempt did not fail: a disk that stays full is reported once. Training continues.
  // Must not throw or call wait().
  using OnResult = std::function<void(const CheckpointResult& result)>;

  AsyncCheckpointWriter(CheckpointStore store, OnResult on_result);
  // Waits for the running checkpoint.
  ~AsyncCheckpointWriter();
  AsyncCheckpointWriter(const AsyncCheckpointWriter&) = delete;
  AsyncCheckpointWriter& operator=(const AsyncCheckpointWriter&) = delete;

  // Starts writing and returns at once. Does nothing and returns false while a checkpoint is being
  // written.
  bool submit(Job job);

  bool busy() const;

  // Waits for the running checkpoint, then returns the result of the last one (also of a failure
  // that was not reported again), or one with step -1 and no error if there was none.
  CheckpointResult wait();

 private:
  void loop();
  CheckpointResult write(const Job& job);

  CheckpointStore store_;  // used by the thread only
  OnResult on_result_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Job job_;  // set until the thread takes it
  bool busy_ = false;
  bool quit_ = false;
  bool failing_ = false;
  CheckpointResult last_;
  std::thread thread_;  // declared last: uses the other members
};

}  // namespace adaptdl
