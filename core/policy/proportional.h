#pragma once

// The default policy: proportional fairness, weighted for short completion times.
//
// Maximises the sum over jobs of w (log x + idle), x being the job's goodput divided by its goodput
// on one GPU (Kelly 1997: the logarithm makes shares proportional to the weights, and lets a GPU go
// where it changes goodput by the largest factor), 0 for a job without allocation. The weights say
// whom to let finish first (job_weights.h). A change of allocation counts as what it costs: the
// goodput of `rescale cost` seconds out of the next `horizon` seconds, or out of the time that the
// job still needs, if that is less. Solved as an integer program over the configurations of
// configuration_round.h.

#include "core/policy/policy.h"

namespace adaptdl {

PolicyInfo proportional_policy();

}  // namespace adaptdl
