#pragma once

// Sends the job's scheduling hints (core/job/hints.h) to the launcher, on rank 0 only. Hints are
// not part of the event stream.

#include "core/base/clock.h"
#include "runtime/session/batch_policy.h"
#include "runtime/session/session.h"

namespace adaptdl {

class HintSender {
 public:
  // Hints are sent after the first measured step, one second after a new generation begins, and at
  // this interval.
  static constexpr std::chrono::seconds kInterval{5};

  explicit HintSender(Session& session) : session_(session) {}

  // Call after every step. Usually free; when hints are due it fits the model, well below a
  // millisecond.
  void step_ended(const Progress& progress, const StepFacts& facts, const BatchPolicy& policy);

 private:
  Session& session_;
  TimePoint next_{};
  uint64_t generation_ = 0;
};

}  // namespace adaptdl
