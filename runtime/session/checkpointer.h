#pragma once

// Decides when rank 0 writes a checkpoint (runtime/checkpoint/interval.h), and writes it in the
// background, or a copy of it on another host. A thread copies the tensors during the next forward
// and backward passes, which change no parameter. The next update waits for the copy, never for the
// disk. From a GPU the copy goes straight to where the writer reads it, beside what the GPU
// computes.

#include <atomic>
#include <functional>
#include <future>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "runtime/checkpoint/async_writer.h"
#include "runtime/checkpoint/interval.h"
#include "runtime/checkpoint/snapshot_buffer.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/side_stream.h"

namespace adaptdl {

// Used from the training thread. A checkpointer without a folder does nothing.
class Checkpointer {
 public:
  // `copy`: on another host than rank 0's, in a folder of its own. It is not written where a newer
  // one is (HeldCheckpoint::newer_than), which would be removed.
  enum class Kind { first, copy };

  // Gets an event for each checkpoint written or failed, on the writer's thread.
  using Announce = std::function<void(const nlohmann::json& event, Kind kind)>;

  // `longest_s`: the user's bound on the time from one checkpoint to the next. `device`: where
  // tensors are that are not in host memory.
  Checkpointer(std::string directory, int keep, double longest_s, Announce announce,
               at::Device device = at::kCPU);
  ~Checkpointer();

  // Tensors that may hold numbers that are not finite; a checkpoint in which another one does is
  // not written. Call before the first checkpoint.
  void allow_any_numbers(std::set<std::string> names) { any_numbers_ = std::move(names); }

  // What the interval follows from. Training begins here now, new or from a checkpoint; a step took
  // this long; the generation was lost, or all replicas were.
  void begun();
  void trained(double seconds);
  void failed();
  // Checkpoints and new replicas get this. load_state() takes null for nothing.
  nlohmann::json state() const;
  void load_state(const nlohmann::json& state);

  // Whether now is the best time, if the next opportunity comes `step_s` seconds later.
  bool due(double step_s) const;
  // The next checkpoint is due as soon as the previous one is written.
  void hurry() { hurry_ = true; }

  // Starts a checkpoint of `tensors` unless one is still being written. Another thread may read the
  // tensors until release() returns.
  void start(CheckpointHeader header, std::vector<NamedTensor> tensors, Kind kind = Kind::first);

  // Waits for the copy; then the tensors may change.
  void release();

  // Writes a checkpoint and returns when it is on disk; false without a folder. Throws Error if the
  // write fails, NotFinite if it is refused for such a tensor.
  bool write(CheckpointHeader header, std::vector<NamedTensor> tensors, Kind kind = Kind::first);

  void wait();

  // Those of an earlier run, too. None without a folder.
  std::optional<CheckpointStore> store() const;

 private:
  void measured(const CheckpointResult& result);
  double interval_s() const;

  std::string directory_;
  int keep_;
  double longest_s_;
  Announce announce_;
  std::set<std::string> any_numbers_;
  TimePoint last_ = Monotonic::now();
  bool started_ = false;  // one since begun()
  bool hurry_ = false;
  const SideStream side_;
  SnapshotBuffer buffer_;
  std::shared_future<std::vector<TensorView>> copied_;
  std::atomic<Kind> kind_{Kind::first};  // of the newest
  std::atomic<double> held_up_s_{0};     // how long training waited for the newest checkpoint
  std::atomic<double> copy_s_{0};        // how long its copy took, on another thread
  mutable std::mutex mutex_;             // the writer's thread measures the cost
  std::optional<CheckpointCost> cost_;
  FailureHistory failures_;
  std::optional<AsyncCheckpointWriter> writer_;
};

// Where a header's state has that fingerprint.
inline constexpr const char* kFrozenDigest = "frozen_digest";

// Copies a checkpoint's tensors into the live tensors with the same names. Throws Error if one is
// missing or has another shape or type.
void restore_tensors(const LoadedCheckpoint& checkpoint, const std::vector<NamedTensor>& tensors);

// A sentence if the program's frozen tensors, of which this is the fingerprint(), are not those of
// the training that wrote the checkpoint; "" if they are, or an earlier version wrote it.
std::string other_frozen(const LoadedCheckpoint& checkpoint, const std::string& digest);

}  // namespace adaptdl
