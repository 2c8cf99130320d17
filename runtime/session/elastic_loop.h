#pragma once

// The loop over generations and steps (trainer.h). One object trains one run in one replica.

#include "runtime/session/training_replica.h"

namespace adaptdl {

class ElasticLoop : private TrainingReplica {
 public:
  ElasticLoop(Program& program, const TrainingSpec& spec, const TrainOptions& options,
              Session& session)
      : TrainingReplica(program, spec, options, session) {}

  // As train().
  int run();

 private:
  // Returns when the generation ends, or throws: comm::Aborted if it broke, StepFailure if this
  // replica cannot go on, another Error if no replica can.
  void check_metrics(int64_t atomic);  // of settings that name some
  Outcome train_generation();
  Outcome train_on();
  Outcome tick();  // one step or validation, and what follows from it
  Prepared prepare();
  Prepared prepare_or_shrink();  // in smaller atomic batches, where memory ran out
  int64_t try_atomic(int64_t most);
};

}  // namespace adaptdl
