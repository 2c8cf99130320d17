#pragma once

// The loop of a program that has its own (adaptdl/training.h): the same steps as ElasticLoop's, in
// pieces that the program calls. Where the generation breaks, the next call joins the next one; a
// step that no member has finished then begins again with this replica's new share.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "adaptdl/training.h"
#include "runtime/open/epoch_collectives.h"
#include "runtime/session/precision.h"
#include "runtime/session/training_replica.h"

namespace adaptdl {

class OpenLoop : private TrainingReplica {
 public:
  using Sums = std::map<std::string, double>;

  // Borrows its arguments. `sums`: what the program adds up for a step; a step begins with zeros.
  OpenLoop(Program& program, const TrainingSpec& spec, const TrainOptions& options,
           Session& session, Sums& sums);

  // All calls end the process when this replica leaves the run or is told to stop.

  // The epoch of the next body, from 0; nothing if training is over: then the model is saved and
  // the launcher knows. The first call announces this replica and waits for the run's state.
  std::optional<int64_t> next_epoch();

  // The next batch of the epoch, which step() must follow; nothing if the epoch is over.
  std::optional<Pass> next_batch();
  void step(const at::Tensor& loss);
  // With several models, once or more often for a batch.
  void turn(size_t model, const at::Tensor& loss);

  // Training ends after the epoch of the present body, of all replicas.
  void finish();

  // To be called until there is none. A pass begins with empty `sums` (again, if the generation
  // broke), and ends with those of all replicas.
  void begin_validation();
  std::optional<Pass> next_validation_batch(Sums& sums);

  // Between the epoch's batches and its validation: what all replicas' bytes are combined to.
  std::string combined(const std::string& mine, const standalone::Fold& fold);

  // As Training's.
  StepInfo last_step() const;
  double sum(const std::string& name) const;
  double epochs_done() const { return stepper_.accounting().epochs(progress_); }
  void log(const std::string& name, double value);

  bool over() const { return over_; }
  // Why this replica ends, if its program has failed in the present step.
  StepFailure failure(const std::exception& error) const { return failed(error); }

 private:
  // Whether `part` went through: false if the generation broke. `together`: as Session::Together.
  // Throws StepFailure for what LibTorch and the standard library throw.
  template <typename Part>
  bool in_generation(bool together, const Part& part);
  void join();          // the newest generation, unless this replica is in one
  void agree_on_end();  // where an epoch begins: whether finish() ends training there
  void settle_step();
  void end_batch();
  void follow(Outcome outcome);
  void end_epoch();
  void check_validated() const;

  Sums& sums_;
  EpochCollectives collectives_;
  bool member_ = false;  // of a generation that works, with its state
  bool announced_ = false, over_ = false;
  bool awaits_loss_ = false;          // of the batch that the program has
  std::optional<Autocast> autocast_;  // while the program has a batch of a validation
  int turn_ = -1;            // turns that the body has called for its batch; -1: it has none
  bool validating_ = false;  // the validator has begun
  bool moved_on_ = false;    // the present body has asked for a batch, or validated
  int64_t epoch_ = 0;        // of the present body
  bool undone_ = false;      // the rest of a body whose step, or turn, broke off
  std::optional<std::pair<uint64_t, int64_t>> asked_in_;  // agree_on_end(): generation and tick
};

// The metrics of a validation: its sums divided by "count", or as they are without one.
OpenLoop::Sums metrics_of(const OpenLoop::Sums& sums);

}  // namespace adaptdl
