#pragma once

// The elastic training loop: from any Program and its settings to a trained model, whoever comes
// and goes on the way.
//
// One optimizer step
//   1. forward and backward on this replica's micro-batches; gradients are averaged meanwhile;
//   2. everybody's losses, norms and timings are gathered: from the same numbers every replica
//      computes the same update (learning rates, statistics, next batch). The step is prepared;
//   3. a second gather says that all have prepared it. It is finished: it is applied and announced;
//   4. in the same gather all learn whether all are connected to the next generation, and whether
//      the run is to stop.
// A generation that breaks throws comm::Aborted out of any of these; sync.h says what then becomes
// of the step.
//
// Invariants
//  1. All members of a generation have bitwise the same parameters, optimizer state and Progress
//     between steps.
//  2. Nothing of a step is kept before its commit but the averaged gradients and Prepared.

#include <memory>
#include <string>

#include "adaptdl/program.h"
#include "core/job/training_spec.h"
#include "runtime/session/session.h"
#include "runtime/session/step_hooks.h"

namespace adaptdl {

struct TrainOptions {
  std::string name;            // of the run
  std::string data_dir;        // relative data paths are relative to it
  std::string checkpoint_dir;  // "" = no checkpoints
  std::string model_path;      // what Program::save writes at the end; "" = nothing
  at::Device device = at::kCPU;
  std::shared_ptr<StepHooks> hooks = std::make_shared<StepHooks>();
};

// Trains to the end, and returns the process's exit code: 0 when the run is finished or this
// replica left it, 143 when it was told to stop. Announces itself to the launcher once the data are
// open and a first batch could be formed. Throws Error when the program or its data cannot be
// trained.
int train(Program& program, const TrainingSpec& spec, const TrainOptions& options,
          Session& session);

}  // namespace adaptdl
