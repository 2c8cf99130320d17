#pragma once

// `adaptdl run --evaluate`: one pass over the validation data, and nothing else.

#include "adaptdl/program.h"
#include "core/job/training_spec.h"
#include "runtime/session/session.h"
#include "runtime/session/trainer.h"

namespace adaptdl {

// Rank 0 loads the newest checkpoint in `options.checkpoint_dir` or, without one, the weights of
// `spec.from`; all replicas evaluate. Sends the events `validation` and `end`. If a replica dies,
// the others begin again; where memory runs out, all do, in smaller passes. Returns the process's
// exit code. Throws Error, also if there is nothing to load or no validation data.
int evaluate(Program& program, const TrainingSpec& spec, const TrainOptions& options,
             Session& session);

}  // namespace adaptdl
