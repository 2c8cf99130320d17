#pragma once

// Data-parallel gradients: averaged over replicas and accumulation steps while backward still runs,
// and measured on the way for the gradient statistics.
//
// Autograd hands each parameter's finished gradient to a hook. With one replica and no accumulation
// it stays where autograd left it, so that a lone replica costs nothing (a sparse one is made
// dense, for all that comes after). Otherwise the hook moves it into a flat bucket (the pass that
// copies also sums the squares), and when a bucket has all its parameters it is all-reduced on
// another thread. Buckets go in one fixed order on all replicas, whatever order their gradients
// come in.
//
// Steps and bytes: one all-reduce of every bucket for each optimizer step, 4 bytes per fp32
// parameter in all; accumulation steps send nothing.

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runtime/optim/optimizer.h"
#include "runtime/parallel/reducer.h"

namespace adaptdl {

namespace comm {
class Communicator;
}

// Sums of squares for one optimizer step and one parameter group. All are of gradients divided by
// the optimizer's preconditioner, in float64.
struct GroupNorms {
  double local = 0;     // sum over this replica's accumulation steps of |g_i|^2
  double total = 0;     // |G|^2 of the averaged gradient
  double previous = 0;  // |G'|^2 of the step before, and their product; only when differenced
  double product = 0;
};

// Used from the training thread; hooks may run on autograd's threads.
class Gradients {
 public:
  // `parameters` outlive this object and keep their storage; installs hooks on them.
  Gradients(std::vector<NamedTensor> parameters, const Optimizer& optimizer,
            size_t bucket_bytes = 25u << 20, size_t first_bucket_bytes = 1u << 20);
  ~Gradients();

  // Begins an optimizer step of `micro_steps` >= 1 forward/backward passes. `communicator` is null
  // for a lone replica, and borrowed until finish(). With `measure`, norms() is filled.
  void begin(comm::Communicator* communicator, int micro_steps, bool measure);

  // Around each backward pass, 0 <= micro < micro_steps. The loss must be divided by micro_steps.
  void begin_micro_step(int micro);
  void end_micro_step();

  // Waits until every bucket is averaged, and points the parameters' gradients at the result.
  // Throws comm::Aborted when the generation broke; the step is then to be discarded.
  void finish();

  // The difference of successive steps stands in for replicas where there is one gradient a step:
  // remembers the present gradients (of a lone replica) for the next step's norms.
  // `copy` when something (clipping) changes gradients in place.
  void remember(bool copy);
  void forget() { previous_.clear(); }
  bool has_previous() const { return !previous_.empty(); }

  // Per parameter group; valid after finish() of a measured step until the next begin().
  const std::vector<GroupNorms>& norms() const { return norms_; }

  // What measuring cost in this step beyond the passes that are made anyhow.
  double measure_seconds() const { return measure_seconds_; }

  // Detaches the parameters from this step's gradients, so that the next ones are not added.
  void clear();

 private:
  struct Slot {  // one parameter's place
    int bucket = 0;
    int64_t offset = 0;  // elements
    int64_t count = 0;
    bool filled = false;  // in this optimizer step
  };
  struct Bucket {
    std::vector<size_t> parameters;
    int64_t count = 0;
    at::Tensor flat;
    int missing = 0;  // parameters still to come in the last micro-step
  };
  class Hook;

  void on_gradient(size_t parameter);
  void take(size_t parameter, const at::Tensor& gradient);
  void complete(int bucket);
  void submit_ready();
  void allocate();
  bool direct() const { return !communicator_ && micro_steps_ == 1; }

  std::vector<NamedTensor> parameters_;
  const Optimizer& optimizer_;
  struct Accumulators;  // autograd's nodes that the hooks are on
  std::unique_ptr<Accumulators> accumulators_;
  std::vector<size_t> hook_keys_;
  std::vector<Slot> slots_;
  std::vector<Bucket> buckets_;
  std::vector<GroupNorms> norms_;
  std::vector<Preconditioner> preconditioners_;  // of this step, when measured
  std::vector<at::Tensor> previous_;
  comm::Communicator* communicator_ = nullptr;
  int micro_steps_ = 1, micro_ = 0;
  bool measure_ = false, active_ = false;
  double measure_seconds_ = 0;
  int next_bucket_ = 0;  // the next one to submit
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace adaptdl
