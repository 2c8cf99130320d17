#pragma once

// Hooks into the training loop, for tests of states that an external signal would rarely hit. The
// library's own hooks do nothing.

#include <cstdint>

#include "core/base/clock.h"

namespace adaptdl {

class Program;

// Called on the training thread.
class StepHooks {
 public:
  enum class Point { reduced, prepared, committed, applied, announced, syncing, saving_best };

  // One pass of a step: the last one, or an earlier one that only accumulates gradients.
  struct Pass {
    TimePoint begun;
    int replicas = 1;
    int64_t samples = 0;  // of this replica in the step's first pass
  };

  virtual ~StepHooks() = default;

  // The program that is trained; called once, before training.
  virtual void program(Program& /*program*/) {}

  // Training has reached `point` of `step`; `member` is this process's number in its run.
  virtual void reached(Point /*point*/, int64_t /*step*/, uint64_t /*member*/) {}

  // Forward and backward of a pass are done; gradients may not be synchronised yet.
  virtual void computed(const Pass& /*pass*/) {}
  // The gradients of a step's last pass are averaged.
  virtual void synchronised(const Pass& /*pass*/) {}
};

}  // namespace adaptdl
