#pragma once

// The search for the allocation with the largest objective: counts from prices or an exact dynamic
// program, placement, and then improvement by taking a few jobs out and putting them back.

#include <cstdint>
#include <vector>

#include "core/policy/pollux/pollux_choices.h"

namespace adaptdl {

struct PolluxAnswer {
  std::vector<PolluxRow> rows;  // by job
  double total = 0;             // sum of values, pinned jobs included
  bool cut_short = false;       // by the deadline
};

// The best allocation found within the budget, or the present one if none is better. Changes only
// caches in `problem`. Deterministic for equal arguments unless cut short.
PolluxAnswer search_pollux(PolluxProblem& problem, uint64_t seed, const SearchBudget& budget);

}  // namespace adaptdl
