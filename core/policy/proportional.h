#pragma once

// The default policy: proportional fairness, weighted for short completion times.
//
// Maximises the sum over jobs of w (log x + idle), x being the job's goodput divided by its goodput
// on one GPU, and 0 for a job without allocation. The logarithm makes shares proportional to the
// weights, and lets a GPU go where it changes goodput by the largest factor (Kelly, Maulloo, Tan
// 1998). The weights say whom to let finish first (job_weights.h). `idle` grows by
// log(1 + age / (service + horizon)), so that nobody waits for ever. Leaving its nodes costs a job
// what it loses of the next `horizon` seconds, or of the time that it still needs, if that is less;
// and at least `hysteresis`, if it does not tell how far it has to go.
// Solved as an integer program over the configurations of configuration_round.h.

#include "core/policy/policy.h"

namespace adaptdl {

PolicyInfo proportional_policy();

}  // namespace adaptdl
