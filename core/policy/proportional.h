#pragma once

// The default policy: proportional fairness, weighted for short completion times.
//
// Maximises the sum over jobs of w (log x + idle), x being the job's goodput divided by its goodput
// on one GPU, and 0 for a job without allocation. The logarithm makes shares proportional to the
// weights, and gives a GPU to the job whose goodput it changes by the largest factor (Kelly,
// Maulloo, Tan 1998). The weights decide which jobs finish first (job_weights.h). `idle` grows by
// log(1 + age / (service + horizon)), so no job waits forever. Leaving its nodes costs a job the
// share that it loses of the next `horizon` seconds, or of its remaining time if that is shorter;
// and at least `hysteresis` if its remaining work is unknown. Solved as an integer program over the
// configurations of configuration_round.h.

#include "core/policy/policy.h"

namespace adaptdl {

PolicyInfo proportional_policy();

}  // namespace adaptdl
