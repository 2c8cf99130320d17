#pragma once

// Prices by bisection, and exact counts by dynamic programming.

#include <cstdint>
#include <vector>

#include "core/policy/pollux/pollux_choices.h"

namespace adaptdl {

// The choice that is worth most at the prices; the first of equals.
int best_choice(const std::vector<PolluxChoice>& choices, const PolluxPrices& prices);

// Prices at which the jobs' best choices just do not take more than there is (the minimum of the
// Lagrangian dual, by bisection, kind after kind). `bound`: no allocation of these choices is worth
// more, where the snapshot has one resource; of several, weights are only a measure.
struct PolluxDual {
  PolluxPrices prices;
  double bound = 0;
};
PolluxDual solve_dual(const PolluxProblem& problem);

// The best choices for all jobs that fit into accelerators and nodes to span, wherever the others
// are: an exact dynamic program for clusters of one kind. Only choices within `slack` of the
// job's best at the dual's prices are looked at. Empty where that takes more than `work` steps or
// the cluster has several kinds.
std::vector<int> best_counts(const PolluxProblem& problem, const PolluxDual& dual, double slack,
                             int64_t& work);

}  // namespace adaptdl
