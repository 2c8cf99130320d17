#pragma once

// The loop over generations and steps (trainer.h). One object trains one run in one replica.

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/session/batch_policy.h"
#include "runtime/session/checkpointer.h"
#include "runtime/session/hint_sender.h"
#include "runtime/session/model_saver.h"
#include "runtime/session/reporter.h"
#include "runtime/session/state_digest.h"
#include "runtime/session/step_failure.h"
#include "runtime/session/stepper.h"
#include "runtime/session/sync.h"
#include "runtime/session/trainer.h"
#include "runtime/session/training_state.h"
#include "runtime/session/validator.h"

namespace adaptdl {

class ElasticLoop {
 public:
  ElasticLoop(Program& program, const TrainingSpec& spec, const TrainOptions& options,
              Session& session);

  // As train().
  int run();

 private:
  enum class Outcome { go_on, finished, left, stopped };

  // Returns when the generation ends, or throws: comm::Aborted if it broke, StepFailure if this
  // replica cannot go on, another Error if no replica can.
  Outcome train_generation();
  Outcome train_on();
  void synchronise();  // makes all members' state the same
  // Sends the state to the members that need it, and averages buffers. `together`: all should be
  // there soon.
  struct Transferred {
    double seconds = 0;
    uint64_t bytes = 0;
  };
  Transferred share_state(const SyncPlan& plan, bool together);
  Outcome tick();  // one step or validation, and what follows from it
  Prepared prepare();
  Prepared prepare_or_shrink();  // in smaller atomic batches, where memory ran out
  int64_t samples_at_once() const;
  int64_t try_atomic(int64_t most);
  StepFailure failed(const std::exception& error) const;
  bool choose_batch();  // if the replicas, their kind or their memory have changed
  void finish_tick();
  // Members whose state differs from the majority's take it from them; the tick is repeated.
  void bring_back(const std::vector<uint64_t>& diverged);
  void checkpoint();  // collective: starts one, in the background
  void initialise();  // rank 0, if no member has state: from a checkpoint or from scratch
  void conclude(bool finished);  // writes the last checkpoint, and the model
  std::string save_best();       // rank 0; as ModelSaver's

  Team team() const;
  const std::string& accelerator() const;  // kind of this replica's
  void reached(StepHooks::Point point, int64_t step);
  StepMark mark() const;
  CheckpointHeader header(bool ended, bool finished) const;

  Program& program_;
  const TrainingSpec& spec_;
  const TrainOptions& options_;
  Session& session_;
  data::Data data_;
  Optimizer optimizer_;
  Schedule schedule_;
  Stepper stepper_;
  std::optional<Validator> validator_;
  Reporter reporter_;
  Checkpointer checkpointer_;
  BatchPolicy batch_policy_;
  HintSender hint_sender_;
  ModelSaver models_;
  TrainingState state_;
  Progress& progress_;  // of state_
  StateDigest state_digest_;

  bool has_state_ = false;
  bool suspect_ = false;       // as StepMark's
  bool moved_ = false;         // to another kind of accelerators since the batch was chosen
  int64_t memory_limit_ = 0;   // largest atomic batch that this process found to fit; 0 = none
  bool checkpointed_ = false;  // rank 0: the checkpoint of the end is on disk
  std::optional<Prepared> pending_;  // prepared here, not yet confirmed by all members
  // When members last diverged: how many steps were finished, and the tick that was repeated.
  std::optional<int64_t> diverged_step_;
  int64_t repeated_tick_ = 0;
  std::optional<StepFacts> last_;  // newest finished step, announced again after a death
  double last_step_s_ = 0;
  TimePoint last_step_end_{};
};

}  // namespace adaptdl
