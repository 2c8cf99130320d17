#pragma once

// The elastic training loop: trains a Program with its settings while replicas join and leave.
//
// One optimizer step
//   1. forward and backward on this replica's micro-batches; gradients are averaged meanwhile;
//   2. a gather of all losses, norms and timings: from the same numbers every replica computes the
//      same update (learning rates, statistics, next batch). The step is now prepared;
//   3. a second gather confirms that all have prepared it. The step is now finished: every replica
//      applies it, and rank 0 announces it;
//   4. the same gather tells whether all are connected to the next generation, and whether the run
//      must stop.
// If the generation breaks, any of these throws comm::Aborted; sync.h then decides whether the
// step is applied or repeated.
//
// Invariants
//  1. All members of a generation have bitwise the same parameters, optimizer state and Progress
//     between steps. StateDigest finds members that do not, and they receive the others' state.
//  2. Before its commit, a step leaves nothing but the averaged gradients and Prepared.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adaptdl/program.h"
#include "core/job/training_spec.h"
#include "runtime/data/dataset.h"
#include "runtime/session/session.h"
#include "runtime/session/step_hooks.h"

namespace adaptdl {

struct TrainOptions {
  std::string name;            // of the run
  std::string data_dir;        // base of relative data paths
  std::string checkpoint_dir;  // "" = no checkpoints
  std::string model_path;      // argument of Program::save at the end; "" = do not save
  std::string best_path;       // and after the best validation so far
  int replicas = 1;            // that the run is to have
  int64_t fresh_at = 0;        // as CheckpointSearch's
  int64_t atomic_limit = 0;    // samples that memory suffices for in one pass; 0 = not known
  at::Device device = at::kCPU;
  std::optional<data::Data> data;  // that is needed, as open_program_data() gives it
  std::vector<size_t> models;      // as Stepper's
  std::shared_ptr<StepHooks> hooks = std::make_shared<StepHooks>();
};

// Trains to the end and returns the process's exit code: 0 if the run finished or this replica
// left it, 143 if it was told to stop. Announces this replica to the launcher after opening the
// data and checking the program on a first batch. Throws Error for an invalid program or data.
int train(Program& program, const TrainingSpec& spec, const TrainOptions& options,
          Session& session);

}  // namespace adaptdl
