#pragma once

// The dynamic program of solve_assignment (see assignment.h).
//
// With r_o >= 0 the price of option o over its job's cheapest at prices mu, an assignment costs
//   L(mu) + sum of its r + sum_k mu_k * (GPUs of kind k that it leaves free),
// so an assignment that costs at most L + threshold has r <= threshold for every job. Most jobs
// have only one such option; the other jobs are the layers of the program. A state is the number of
// GPUs used of each kind; of equal states the program keeps the cheapest.

#include <optional>
#include <vector>

#include "core/policy/assignment.h"

namespace adaptdl {

struct SearchResult {
  std::optional<std::vector<int>> choice;  // the best found that costs less than L + threshold
  bool complete = false;  // exhaustive: `choice` is optimal, or none is below threshold
  int64_t work = 0;
};

class AssignmentSearch {
 public:
  // `price` as in AssignmentDual. Borrows the problem.
  AssignmentSearch(const AssignmentProblem& problem, const std::vector<double>& price);

  // Whether the states' keys fit into 64 bits, as run() requires.
  bool possible() const { return possible_; }

  // A threshold for a first try: the n-th smallest r > 0 of all.
  double threshold(size_t n) const;

  SearchResult run(double threshold, int64_t work, const SearchBudget& budget) const;

 private:
  struct Candidate {
    int option = -1;  // -1: none, which takes 0 GPUs of kind 0
    int kind = 0;
    int64_t gpus = 0;
    double reduced = 0;  // r
  };

  const AssignmentProblem& problem_;
  std::vector<double> price_;
  struct Field {
    int shift = 0;
    uint64_t mask = 0;
  };
  std::vector<Field> fields_;  // by kind: the bits of a state's key for the GPUs used
  bool possible_ = true;
  std::vector<std::vector<Candidate>> jobs_;  // by rising r

  friend class SearchRun;
};

}  // namespace adaptdl
