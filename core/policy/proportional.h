#pragma once

// The default policy: proportional fairness, weighted for short completion times.
//
// Maximises the sum over jobs of w (log x + idle), x being the job's goodput divided by its goodput
// on one GPU, and 0 for a job without allocation. The logarithm makes shares proportional to the
// weights, and gives a GPU to the job whose goodput it changes by the largest factor (Kelly,
// Maulloo, Tan 1998). The weights decide which jobs finish first (job_weights.h). `idle` grows with
// the logarithm of a job's age, so no job waits forever. A change of its allocation costs a job
// what it loses of the time that the new allocation will probably last (change_cost.h); if its
// remaining work is unknown, at least `hysteresis`, unless the change makes it faster and no job
// waits. Solved as an integer program over the configurations of configuration_round.h.

#include "core/policy/policy.h"

namespace adaptdl {

PolicyInfo proportional_policy();

}  // namespace adaptdl
