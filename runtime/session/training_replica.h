#pragma once

// What the closed loop (ElasticLoop) and the open one (OpenLoop) share: a replica's state, its
// generations, and what follows from a step that all members have prepared.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/session/batch_policy.h"
#include "runtime/session/checkpointer.h"
#include "runtime/session/model_saver.h"
#include "runtime/session/report/gpu_sender.h"
#include "runtime/session/report/hint_sender.h"
#include "runtime/session/report/link_sender.h"
#include "runtime/session/report/pace_sender.h"
#include "runtime/session/report/reporter.h"
#include "runtime/session/state_digest.h"
#include "runtime/session/step_failure.h"
#include "runtime/session/stepper.h"
#include "runtime/session/sync.h"
#include "runtime/session/trainer.h"
#include "runtime/session/training_state.h"
#include "runtime/session/validator.h"

namespace adaptdl {

// For the training thread. Of a method that is collective, comm::Aborted means that the generation
// broke: call lost(), then Session::await_next() and synchronise().
class TrainingReplica {
 protected:
  enum class Outcome { go_on, finished, left, stopped };

  // Borrows all arguments.
  TrainingReplica(Program& program, const TrainingSpec& spec, const TrainOptions& options,
                  Session& session);

  // Tells the launcher that this replica is ready to train.
  void announce();
  void lost(const comm::Aborted& broken);
  // Tells the launcher why this replica ends, and returns the exit code. Not for go_on.
  int leave(Outcome outcome);

  void synchronise();     // makes all members' state the same
  Decisions decisions();  // of rank 0 for the next step; of others, none
  // The result of the validation that is due: its metrics, or null if there was none.
  Prepared validated(const std::map<std::string, double>* metrics) const;
  // Collective: commits what was prepared. follow_up() does what the commit asks for: a checkpoint,
  // the end, another generation. The program's own state() must be that after the step by then.
  void settle(Prepared prepared);
  Outcome follow_up();
  void average(const std::vector<NamedTensor>& buffers);  // over the replicas; collective
  void conclude(bool finished);  // writes the last checkpoint, and the model

  int64_t samples_at_once() const;  // in a forward pass of the present tick
  bool choose_batch();              // if the replicas, their kind or their memory have changed
  const std::optional<StepFacts>& last_step() const { return last_; }  // finished here
  StepFailure failed(const std::exception& error) const;
  Team team() const;
  const std::string& accelerator() const;  // kind of this replica's

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
  PaceSender pace_sender_;
  LinkSender link_sender_;
  std::optional<GpuSender> gpu_sender_;  // of a replica with a GPU, from its announcement on
  ModelSaver models_;
  TrainingState state_;
  Progress& progress_;  // of state_
  StateDigest state_digest_;

  int64_t memory_limit_ = 0;  // largest atomic batch that this process found to fit; 0 = none
  double last_step_s_ = 0;

 private:
  // Sends the state to the members that need it, and averages buffers. `together`: all should be
  // there soon.
  struct Transferred {
    double seconds = 0;
    uint64_t bytes = 0;
  };
  Transferred share_state(const SyncPlan& plan, bool together);
  void finish_tick();
  void tell_batch();  // that has just changed
  // Members whose state differs from the majority's take it from them; the tick is repeated.
  void bring_back(const std::vector<uint64_t>& diverged);
  void checkpoint();  // collective: starts one, in the background
  // If no member has state. Collective: who has it then, from a checkpoint or from nothing.
  int begin_state();
  void resume(const LoadedCheckpoint& checkpoint, const std::vector<std::string>& problems);
  void choose_copies();     // for the new generation
  std::string save_best();  // rank 0; as ModelSaver's
  void reached(StepHooks::Point point, int64_t step);
  StepMark mark() const;
  void check_data(const SyncPlan& plan) const;
  CheckpointHeader header(bool ended, bool finished) const;

  bool has_state_ = false;
  // It is from a checkpoint, {step, path, problems}, and rank 0 has not told that yet; else null.
  nlohmann::json resumed_;
  int copy_folder_ = -1;  // Session::folders(): where copies of the checkpoints go; -1: nowhere
  bool suspect_ = false;  // as StepMark's
  bool moved_ = false;    // to another kind of accelerators since the batch was chosen
  bool checkpointed_ = false;        // rank 0: the checkpoint of the end is on disk
  bool checkpoint_due_ = false;      // follow_up() starts one
  std::optional<Verdict> verdict_;   // that follow_up() obeys
  std::optional<Prepared> pending_;  // prepared here, not yet confirmed by all members
  // When members last diverged: how many steps were finished, and the tick that was repeated.
  std::optional<int64_t> diverged_step_;
  int64_t repeated_tick_ = 0;
  std::optional<StepFacts> last_;  // newest finished step
  TimePoint last_step_end_{};
};

}  // namespace adaptdl
