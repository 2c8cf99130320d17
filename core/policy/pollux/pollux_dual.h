#pragma once

// Prices by bisection, and exact counts by dynamic programming.

#include <cstdint>
#include <vector>

#include "core/policy/pollux/pollux_choices.h"

namespace adaptdl {

// The choice with the largest net value at the prices; the first of equals.
int best_choice(const std::vector<PolluxChoice>& choices, const PolluxPrices& prices);

// The lowest prices at which the jobs' best choices take no more than the cluster has (the minimum
// of the Lagrangian dual, by bisection, kind after kind). `bound`: an upper bound for the value of
// any allocation of these choices if the snapshot has one resource. With several resources it is
// not a bound, because weights are only approximate.
struct PolluxDual {
  PolluxPrices prices;
  double bound = 0;
};
PolluxDual solve_dual(const PolluxProblem& problem);

// The best choices for all jobs that fit into the accelerators and the nodes to span, without
// regard to placement: an exact dynamic program for clusters of one kind. It considers only choices
// within `slack` of the job's best at the dual's prices. Empty if that takes more than `work` steps
// or the cluster has several kinds.
std::vector<int> best_counts(const PolluxProblem& problem, const PolluxDual& dual, double slack,
                             int64_t& work);

}  // namespace adaptdl
