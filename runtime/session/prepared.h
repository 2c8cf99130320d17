#pragma once

// What a replica prepares, and applies once all members have prepared it too.

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/session/exchange.h"
#include "runtime/session/progress.h"

namespace adaptdl {

// Facts about a step, for events.
struct StepFacts {
  StepSummary summary;
  int64_t step = 0;
  double iterations = 0, lr = 0, gain = 1, efficiency = 1;
  double total_iterations = 0;  // expected at the end of training
  double noise_scale = 0;       // tr(covariance) / |gradient|^2, samples; 0 = unknown
  double step_s = 0;            // on this replica
  BatchPlan batch;
  int replicas = 1;
  bool whole = true;    // not cut short by the end of a pass
  bool halved = false;  // computed in halves by a lone replica, to measure
  bool skipped() const { return summary.nonfinite; }
};

// What is applied once all members have prepared it.
struct Prepared {
  enum class Kind {
    step,        // an update, and the step is over
    turn,        // an update of one of several models
    turns_over,  // a step whose updates are applied
    validation,  // the result of one
  };
  Kind kind = Kind::step;
  Progress after;
  std::vector<double> lr_factors;  // per parameter group
  std::optional<double> momentum;  // if the schedule changes it
  StepFacts facts;
  bool left_out = false;  // there was no validation
};

}  // namespace adaptdl
