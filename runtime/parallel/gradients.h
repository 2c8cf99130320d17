#pragma once

// Data-parallel gradients: averages them over replicas and accumulation steps during backward, and
// measures them for the gradient statistics.
//
// Autograd passes each parameter's finished gradient to a hook. With one replica and no
// accumulation the gradient stays in place, so that a single replica has no overhead; the hook only
// looks whether it is finite, while it is in the processor's cache. Otherwise the hook copies it
// into a flat bucket and sums the squares in the same pass. When a bucket has all its gradients,
// another thread all-reduces it. All replicas reduce buckets in the same order, whatever the order
// of their gradients. On a GPU that is beside what backward goes on to queue there.
//
// The order in which gradients come, by which buckets are filled, is known from passes before this
// step (the trial of a new replica), and agreed once a generation. So is which parameters have
// sparse gradients: these stay sparse if the optimizer then needs only their rows; otherwise, and
// until that is agreed, they become dense.
//
// Where a step must give the same bits on any number of replicas (begin_shards), the gradient of
// each shard is one pass's, and all are added in the order of one tree (shard_tree.h).
//
// Communication: one all-reduce of every bucket per optimizer step, 4 bytes per fp32 parameter in
// total, and the rows of each sparse gradient (sparse_rows.h); accumulation steps send nothing.
// Between hosts 2 bytes on request (rounded_average.h).

#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runtime/data/sampler.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/gradient_sums.h"
#include "runtime/parallel/reducer.h"
#include "runtime/parallel/rounded_average.h"
#include "runtime/parallel/shard_tree.h"

namespace adaptdl {

namespace comm {
class Communicator;
}

// Sums of squares for one optimizer step and parameter group, in float64, of gradients divided by
// the optimizer's preconditioner.
struct GroupNorms {
  double local = 0;  // this replica's part of the sum over all gradient samples of |g_i|^2 n_i / n
  double total = 0;  // |G|^2 of the averaged gradient
  double previous = 0;  // |G'|^2 of the previous step, and G * G'; only with has_previous()
  double product = 0;
};

struct GradientsOptions {
  size_t bucket_bytes = 25u << 20, first_bucket_bytes = 1u << 20;
  size_t first = 0;      // the optimizer's number of the first parameter
  bool rounded = false;  // fp32 gradients travel as bf16 between hosts; those of shards do not
};

// Used from the training thread; hooks may run on autograd's threads.
class Gradients {
 public:
  // Installs hooks on `parameters`, which must outlive this object and keep their storage. They are
  // successive ones of the optimizer's.
  Gradients(std::vector<NamedTensor> parameters, const Optimizer& optimizer,
            const GradientsOptions& options = {});
  ~Gradients();

  // Begins an optimizer step of `micro_steps` >= 1 forward/backward passes. `communicator` is null
  // for a single replica, and borrowed until finish(). `measure`: fill norms(). The losses whose
  // gradients come are multiplied by `loss_scale`, and gradients are divided by it.
  void begin(comm::Communicator* communicator, int micro_steps, bool measure,
             double loss_scale = 1);

  // The same for a step that is cut into shards, of which this replica computes those of `mine`,
  // one in each pass and in order; one without any has one pass, without samples. `weight` is n_i /
  // n then, and the gradient of the step the sum over all shards. Not measured; all gradients
  // become dense.
  void begin_shards(comm::Communicator* communicator, int shards, data::ShardRange mine,
                    double loss_scale);

  // Call around each backward pass, 0 <= micro < micro_steps. The gradient of the step is the mean
  // over replicas of the sums over their passes. For a mean over samples, the loss of a pass with
  // n_i of the step's n samples must be multiplied by `weight` = K n_i / n. A replica without
  // samples (weight 0) calls both and runs no backward pass.
  void begin_micro_step(int micro, double weight);
  void end_micro_step();

  // Waits until every bucket is averaged, and points the parameters' gradients at the result.
  // Throws comm::Aborted if the generation breaks; then discard the step.
  void finish();

  // Ends a step that begin() began and that will not be finished: the program has thrown. Waits for
  // reductions that run, so the generation must be aborted before.
  void abandon() noexcept;

  // With a single gradient per step, differences between successive steps replace differences
  // between replicas: remembers the current gradients (of a single replica) for the next step's
  // norms. Set `copy` if the gradients are changed in place (by clipping).
  void remember(bool copy);
  void forget() { previous_.clear(); }
  bool has_previous() const { return !previous_.empty(); }

  // Whether all numbers of this replica's gradients are finite, also of a step that is not
  // measured. Valid after finish() until the next begin().
  bool finite() const { return finite_; }

  // The parameters that a backward pass of this replica has reached in this step: one bit each, 32
  // in a word. Valid after finish() until the next begin().
  std::vector<uint32_t> used() const;
  // Leaves those that no replica has reached without a gradient, as plain autograd does: the
  // optimizer passes them over. Those that some have reached keep the average over all.
  void drop_unused(const std::vector<uint32_t>& used_anywhere);

  // Per parameter group; valid after finish() of a measured step until the next begin().
  const std::vector<GroupNorms>& norms() const { return norms_; }

  // Seconds spent on measuring in this step, beyond passes that are needed anyway.
  double measure_seconds() const { return measure_seconds_; }

  // Detaches this step's gradients from the parameters, so that autograd does not add to them.
  void clear();
  // Whether a gradient has come outside of the calls around backward passes, since begin() or
  // clear(): of a backward pass of the program's own, which no other replica would hear of.
  bool disturbed() const { return disturbed_; }

  const std::vector<NamedTensor>& parameters() const { return parameters_; }

 private:
  struct Slot {  // one parameter's place
    int bucket = 0;
    int64_t offset = 0;  // elements
    int64_t count = 0;
    bool filled = false;   // in this optimizer step
    bool reached = false;  // in this pass, of a shard
    at::Tensor rows;       // instead of a place in a bucket; undefined unless filled
  };
  struct Bucket {
    std::vector<size_t> parameters;
    int64_t count = 0;
    at::Tensor flat;
    std::vector<at::Tensor> more;  // of shards: after `flat`, the other nodes of this replica's
    RoundedAverage rounded;
    int missing = 0;  // parameters still to come in the last micro-step, or in that of a shard
    const at::Tensor& node(size_t i) const { return i == 0 ? flat : more[i - 1]; }
  };
  class Hook;

  // What the pass of a shard does to this replica's nodes of the tree.
  struct ShardPass {
    size_t node = 0;    // where its gradient goes
    bool adds = false;  // to what is there
    int sums = 0;       // how often that node is then added to the one before
  };

  void start(comm::Communicator* communicator, int micro_steps, bool measure, double loss_scale);
  void begin_shard();
  void end_shard(Bucket& bucket);
  void plan_buckets();
  void agree_on_buckets();
  void average_sparse();
  void on_gradient(size_t parameter);
  void take(size_t parameter, const at::Tensor& gradient);
  void complete(int bucket);
  void submit_ready();
  void allocate();
  bool direct() const { return !communicator_ && micro_steps_ == 1 && shards_ == 0; }
  bool rounds() const;
  bool last_pass() const { return micro_ == micro_steps_ - 1; }

  std::vector<NamedTensor> parameters_;
  const Optimizer& optimizer_;
  const GradientsOptions options_;
  struct Accumulators;  // autograd's nodes that the hooks are on
  std::unique_ptr<Accumulators> accumulators_;
  std::vector<size_t> hook_keys_;
  std::vector<uint32_t> came_;     // the parameters in the order in which their gradients came here
  std::vector<uint8_t> has_come_;  // by parameter
  // By parameter: whether a gradient was sparse here; and what counts in this step, which is the
  // same on all replicas, as the order is by which buckets are filled.
  std::vector<uint8_t> seen_sparse_, sparse_;
  std::vector<uint32_t> order_;
  std::optional<uint64_t> agreed_in_;  // generation
  std::vector<Slot> slots_;
  std::vector<Bucket> buckets_;
  GradientSums sums_;
  std::vector<GroupNorms> norms_;
  std::vector<Preconditioner> preconditioners_;  // of this step, when measured
  std::vector<at::Tensor> previous_;
  comm::Communicator* communicator_ = nullptr;
  int micro_steps_ = 1, micro_ = 0;
  int shards_ = 0;  // of the step; 0: it is not cut into any
  data::ShardRange mine_;
  ShardTree tree_{1};  // of this replica's so far
  ShardPass shard_pass_;
  double weight_ = 1;  // of the pass
  double loss_scale_ = 1;
  bool measure_ = false, active_ = false, finite_ = true, disturbed_ = false;
  double measure_seconds_ = 0;
  int next_bucket_ = 0;  // the next one to submit
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace adaptdl
