#pragma once

// Tells the launcher, for the scheduler, what this job knows of itself (core/job/hints.h). Rank 0's
// alone; not a part of the event stream.

#include "core/base/clock.h"
#include "runtime/session/batch_policy.h"
#include "runtime/session/session.h"

namespace adaptdl {

class HintSender {
 public:
  // Sent as soon as a step was measured, a second after another generation began, else this often.
  static constexpr std::chrono::seconds kInterval{5};

  HintSender(Session& session, double total_iterations)
      : session_(session), total_iterations_(total_iterations) {}

  // After every step. Mostly costs nothing; a fit, well below a millisecond, when it is time.
  void step_ended(const Progress& progress, const BatchPolicy& policy);

 private:
  Session& session_;
  const double total_iterations_;
  TimePoint next_{};
  uint64_t generation_ = 0;
};

}  // namespace adaptdl
