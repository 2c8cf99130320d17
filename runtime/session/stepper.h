#pragma once

// Runs one optimizer step of one replica: computes the update from its batches, then applies it.
// Independent of membership: the caller passes the number of replicas and the communicator.
//
// A step in pieces, where the caller computes the losses:
//   stepper.begin(progress, team);
//   while (auto pass = stepper.next_pass()) stepper.backward(loss of pass->batch);
//   Prepared prepared = stepper.finish(decisions, last_step_s);
//
// Where several models take turns, each with a loss of its own (a GAN), a step is one batch, in
// which each turn is an update of one model's parameters, committed and applied like a step:
//   stepper.begin(progress, team); auto pass = stepper.next_pass();
//   Prepared update = stepper.turn(model, loss);  // commit, apply(update); then, before the next:
//   stepper.next_turn();
//   Prepared step = stepper.finish_turns(decisions, last_step_s);
// If a generation breaks in between, Progress::turn tells how many updates are applied. The step is
// begun again, and the caller passes over these, with next_turn() after each.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adaptdl/program.h"
#include "core/base/clock.h"
#include "core/job/training_spec.h"
#include "runtime/data/loader.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/gradients.h"
#include "runtime/session/precision.h"
#include "runtime/session/prepared.h"
#include "runtime/session/progress.h"
#include "runtime/session/saved_buffers.h"
#include "runtime/session/shard_buffers.h"
#include "runtime/session/step_accounting.h"
#include "runtime/session/step_hooks.h"

namespace adaptdl {

// The group as a step sees it.
struct Team {
  comm::Communicator* communicator = nullptr;  // null for a lone replica
  int replicas = 1, rank = 0, nodes = 1;
  uint64_t member = 0;  // for the hooks only
};

// What one forward and backward pass is to compute.
struct Pass {
  std::vector<at::Tensor> batch;  // one tensor per data column, on the program's device
  int64_t samples = 0;            // >= 1
  bool goes_on = false;           // each sample follows that at its place in the pass before
};

// Rank 0's decisions for the step after this one.
struct Decisions {
  BatchPlan next_batch;
  // Asked at the end of the step: whether a checkpoint is due, if a step takes this long. Or none.
  std::function<bool(double step_s)> checkpoint;
};

class Stepper {
 public:
  // Borrows all arguments except the data and `models`; they must outlive this object. `models`:
  // how many of the program's parameters belong to each of several models, in order; else empty.
  Stepper(Program& program, Optimizer& optimizer, Schedule& schedule, const TrainingSpec& spec,
          const data::Dataset& dataset, at::Device device, StepHooks& hooks,
          const std::vector<size_t>& models = {});

  const StepAccounting& accounting() const { return accounting_; }

  // Runs the program once on a small first batch. Throws Error if its loss is not a scalar or has
  // no gradient. Does not change parameters, buffers and gradients.
  void check_program(const BatchPlan& batch);

  // Runs forward, backward, reduction and the first gather of the next step. Changes only gradients
  // and buffers, these until discard(). Throws comm::Aborted.
  Prepared prepare(const Progress& progress, const Team& team, const Decisions& decisions,
                   double last_step_s);

  // The pieces of prepare(). Borrows `progress` until finish() or discard().
  void begin(const Progress& progress, const Team& team);
  // The next batch of the step, and autocast on until backward(); nothing if the step has no more.
  // Those without samples for this replica it passes over.
  std::optional<Pass> next_pass();
  // `loss` of the newest pass, as Program::training_step(). The last one waits for the reduction.
  void backward(const at::Tensor& loss);
  bool begun() const { return running_.has_value(); }
  // Whether backward() was called for each pass so far, and no more follow.
  bool computed() const;
  Prepared finish(const Decisions& decisions, double last_step_s);

  // What this replica adds to Progress::sums by the step; the same names on all replicas.
  void add_sums(const std::map<std::string, double>& sums);

  // With several models, in place of backward() and finish().
  Prepared turn(size_t model, const at::Tensor& loss);
  void next_turn();
  // The generation broke in turn(). Until discard() the loop's body, which will run again, may
  // change the program's state; that is undone also if the turn turns out to be finished.
  void break_off();
  Prepared finish_turns(const Decisions& decisions, double last_step_s);

  // Applies a prepared update to parameters and optimizer; of a skipped step, nothing. Not
  // collective.
  void apply(const Prepared& prepared);

  // Ends a step in which the program has thrown, after its generation was aborted.
  void abandon() {
    for (auto& gradients : gradients_) gradients->abandon();
    discard();
  }

  // Undoes what a step that is not applied has changed; nothing if there is none.
  void discard() {
    running_.reset();
    broken_off_.reset();
    last_step_.reset();
    autocast_.reset();
    saved_buffers_.restore();
  }

  // Saves what begin() or discard() then restores: buffers and the program's state.
  void save() { saved_buffers_.save(); }

  // Lets the loader's threads read ahead from `progress`.
  void read_ahead(const Progress& progress, const Team& team);

 private:
  bool measures(const Progress& progress) const { return progress.measure && shards_ == 0; }
  std::vector<data::Step> plan_passes(const Progress& progress, const Team& team) const;
  // A step between begin() and finish().
  struct Running {
    TimePoint begun;
    const Progress* before = nullptr;
    Team team;
    // Its batches, of which each is a pass, or two with `halves`. Of shards: those of this replica,
    // or one without samples if it has none.
    std::vector<data::Step> steps;
    bool halves = false;
    double samples = 0;  // of all replicas
    StepReport report;
    size_t loaded = 0;         // batches
    int passes = 1, done = 0;  // all, and those that are computed
    std::optional<Pass> second_half;
    int64_t pass_samples = 0;  // of the present pass
    double weight = 1;         // of its loss
    at::Tensor loss;           // of that pass, until it is read
    TimePoint pass_begun{};
    TimePoint turn_begun{};
    // Of turns, since the step was begun; and whether it was begun again after some.
    std::vector<GroupNorms> norms;
    bool again = false;
    std::vector<std::string> sums;  // names
  };
  Pass load_pass();
  void read_loss();
  void end_pass();
  void check_undisturbed() const;
  void run_backward(const at::Tensor& loss, const std::vector<at::Tensor>& inputs);
  void report_gradients(StepReport& report, const Gradients& gradients) const;
  void report_decisions(StepReport& report, const Decisions& decisions, double last_step_s) const;
  Prepared prepared_by(const Running& run, Prepared::Kind kind, const StepReport& report) const;
  at::Tensor forward(const std::vector<at::Tensor>& batch);
  Program& program_;
  Optimizer& optimizer_;
  const TrainingSpec& spec_;
  at::Device device_;
  StepHooks& hooks_;
  data::Loader loader_;
  StepAccounting accounting_;
  std::vector<std::unique_ptr<Gradients>> gradients_;  // of each model
  const int shards_;                                   // that each step is cut into; 0: none
  SavedBuffers saved_buffers_;
  ShardBuffers shard_buffers_;
  bool turns_ = false;         // several models
  double measure_cost_s_ = 0;  // of one measured step, smoothed; rank 0's value decides
  std::optional<Running> running_;
  std::optional<std::string> broken_off_;  // the program's state after a turn that may be finished
  data::Step finishing_;                   // the last batch of the step that is prepared
  std::optional<data::Step> last_step_;    // and of the one before, if nothing came in between
  std::optional<Autocast> autocast_;       // during a pass, until its loss is there
};

}  // namespace adaptdl
