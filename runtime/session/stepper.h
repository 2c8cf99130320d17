#pragma once

// One optimizer step of one replica, from its batches to the prepared update, and the application
// of it. Knows nothing of membership: the caller says how many replicas there are and hands in
// their communicator.

#include <memory>
#include <optional>
#include <vector>

#include "adaptdl/program.h"
#include "core/job/training_spec.h"
#include "runtime/data/loader.h"
#include "runtime/optim/optimizer.h"
#include "runtime/optim/schedule.h"
#include "runtime/parallel/gradients.h"
#include "runtime/session/exchange.h"
#include "runtime/session/progress.h"
#include "runtime/session/step_hooks.h"

namespace adaptdl {

// The group as a step sees it.
struct Team {
  comm::Communicator* communicator = nullptr;  // null for a lone replica
  int replicas = 1, rank = 0, nodes = 1;
  uint64_t member = 0;  // for the hooks only
};

// What a step did, for events.
struct StepFacts {
  StepSummary summary;
  int64_t step = 0;
  double iterations = 0, lr = 0, gain = 1, efficiency = 1;
  double noise_scale = 0;  // tr(covariance) / |gradient|^2, samples; 0 = not known yet
  double step_s = 0;       // on this replica
  BatchPlan batch;
  int replicas = 1;
  bool skipped() const { return summary.nonfinite; }
};

// An update that waits for everybody's word.
struct Prepared {
  Progress after;
  std::vector<double> lr_factors;  // per parameter group
  StepFacts facts;
  bool validation = false;  // not an update: the result of a validation
};

// Rank 0's decisions for the step after this one.
struct Decisions {
  BatchPlan next_batch;
  bool checkpoint = false;
};

class Stepper {
 public:
  // Borrows all but the data for its life.
  Stepper(Program& program, Optimizer& optimizer, Schedule& schedule, const TrainingSpec& spec,
          data::Dataset dataset, at::Device device, StepHooks& hooks);

  // Iterations of one epoch, D / M0, and of the whole training.
  double iterations_per_epoch() const { return iterations_per_epoch_; }
  double total_iterations() const { return iterations_per_epoch_ * spec_.epochs; }

  // Runs the program once on a small first batch and throws Error with a sentence when its loss is
  // no scalar or has no gradient. Leaves parameters, buffers and gradients as they were.
  void check_program(const BatchPlan& batch);

  // Forward, backward, reduction and the first gather of the next step. Changes nothing but
  // gradients and buffers. Throws comm::Aborted.
  Prepared prepare(const Progress& progress, const Team& team, const Decisions& decisions,
                   double last_step_s);

  // Applies a prepared update to parameters and optimizer. Not collective.
  void apply(const Prepared& prepared);

  // Threads that read ahead start from there.
  void read_ahead(const Progress& progress, const Team& team);

  double lr_factor_of_schedule(double iterations) const { return schedule_.factor(iterations); }

 private:
  std::vector<data::Step> plan_passes(const Progress& progress, const Team& team) const;
  // Forward and backward; fills in what the report says of these.
  StepReport run_passes(const std::vector<data::Step>& steps, const Team& team, bool measure);
  void update_statistics(Progress& after, const Progress& before, const StepSummary& summary,
                         size_t passes, const Team& team);
  bool measure_next(const Progress& progress, double step_s);
  void advance(Progress& after, const data::Step& last, double gain) const;

  Program& program_;
  Optimizer& optimizer_;
  Schedule& schedule_;
  const TrainingSpec& spec_;
  at::Device device_;
  StepHooks& hooks_;
  data::Loader loader_;
  Gradients gradients_;
  double iterations_per_epoch_ = 1;
  double measure_cost_s_ = 0;  // of one measured step, smoothed; rank 0's decides
};

}  // namespace adaptdl
