#pragma once

// Instants of training at which somebody else may act: what tests need to bring about states that a
// signal from outside would hit once in a thousand tries. The library itself does nothing there.

#include <cstdint>

#include "core/base/clock.h"

namespace adaptdl {

// Called on the training thread.
class StepHooks {
 public:
  enum class Point { reduced, prepared, committed, applied, announced, syncing };

  // One step's last pass, or one before it that only accumulates.
  struct Pass {
    TimePoint begun;
    int replicas = 1;
    int64_t samples = 0;  // of this replica in the step's first pass
  };

  virtual ~StepHooks() = default;

  // Training is at `point` of `step`; `member` is this process's number in its run.
  virtual void reached(Point /*point*/, int64_t /*step*/, uint64_t /*member*/) {}

  // Forward and backward of a pass are done; the gradients may still be on their way.
  virtual void computed(const Pass& /*pass*/) {}
  // The gradients of a step's last pass are averaged.
  virtual void synchronised(const Pass& /*pass*/) {}
};

}  // namespace adaptdl
