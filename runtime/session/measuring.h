#pragma once

// Which steps measure the noise of their gradients. Where a batch is computed in one pass by a lone
// replica, there is one gradient; what it compares instead, this file says.

#include <cstdint>

#include "core/job/training_spec.h"
#include "runtime/session/progress.h"

namespace adaptdl {

// Whether a lone replica computes some steps in halves, for unbiased statistics. Where it does not,
// it must take two passes for a batch above M0, or its batch would grow by biased ones alone.
bool measures_halves_alone(const TrainingSpec& spec);

// A half has at least two samples, as normalisation over a batch needs.
constexpr int64_t kSmallestHalved = 4;

// Whether step number `step` is computed in halves if it is measured. Pure: all replicas agree.
bool in_halves(const TrainingSpec& spec, const Progress& progress, int replicas, int64_t step);

// What measuring a step costs, in seconds, and how long a step takes; 0 = not known.
struct MeasureCosts {
  double measure_s = 0, step_s = 0;
};

// Whether to measure step number `step`. Sampling does not bias the estimates, because the choice
// does not depend on them. Pure, but costs differ among replicas: rank 0 decides for all.
bool measures(const TrainingSpec& spec, const Progress& progress, int replicas, int64_t step,
              const MeasureCosts& costs);

}  // namespace adaptdl
