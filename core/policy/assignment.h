#pragma once

// Chooses one option for each job so that the sum of their values is least and the GPUs of each
// kind suffice: a multiple-choice knapsack with one capacity for each kind (Sia, SOSP'23, section
// 3.4, formulates it as an integer program). Independent of jobs, nodes and time.
//
// Method: a Lagrangian relaxation with one price for each kind gives a lower bound and a price for
// every deviation from the relaxed choice. A dynamic program over the used GPUs then tries the
// deviations whose prices add up to at most a threshold. The threshold doubles until a feasible
// choice is below it: that choice is optimal. If there are more states than the budget allows, the
// program keeps only the most promising ones, and the answer has a bound instead of a proof.

#include <cstdint>
#include <vector>

#include "core/policy/policy.h"

namespace adaptdl {

struct AssignmentOption {
  int kind = 0;
  int64_t gpus = 0;  // >= 0
  double value = 0;  // finite, the less the better
};

struct AssignmentProblem {
  std::vector<int64_t> capacity;  // GPUs by kind, >= 0
  double unassigned = 0;          // what a job without option costs; finite
  std::vector<std::vector<AssignmentOption>> jobs;
};

struct Assignment {
  std::vector<int> choice;  // by job: an index into its options, -1: none
  double objective = 0;     // sum of values + unassigned * (jobs without option)
  double bound = 0;         // lower bound of any objective, up to rounding; = objective if optimal
  bool optimal = false;     // proven
  bool cut_short = false;   // the deadline ended the search
};

// Always feasible, deterministic without deadline. A tie goes to options that come first in a job.
// Requires: kinds within `capacity`; finite values. Any thread. Milliseconds for hundreds of jobs,
// 0.2 s for 20,000 jobs on 100,000 GPUs of three kinds with the default budget.
Assignment solve_assignment(const AssignmentProblem& problem, const SearchBudget& budget = {});

// Sum of values, with `unassigned` for each -1.
double assignment_objective(const AssignmentProblem& problem, const std::vector<int>& choice);

}  // namespace adaptdl
