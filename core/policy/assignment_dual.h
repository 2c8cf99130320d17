#pragma once

// The Lagrangian relaxation of an assignment: instead of hard capacities, each GPU of kind k has a
// price mu_k, so every job chooses independently. For any mu >= 0
//   L(mu) = sum_j min(unassigned, min_o (value_o + mu_k gpus_o)) - sum_k mu_k capacity_k
// is a lower bound of the problem, concave and piecewise linear in mu.

#include <cstdint>
#include <vector>

#include "core/policy/assignment.h"

namespace adaptdl {

class AssignmentDual {
 public:
  // Borrows the problem.
  explicit AssignmentDual(const AssignmentProblem& problem);

  struct Point {
    std::vector<double> price;
    std::vector<int> choice;    // the jobs' own; a tie goes to fewer GPUs
    std::vector<int64_t> used;  // by kind, may exceed the capacity
    double bound = 0;           // L(price)
  };
  // O(jobs * kinds * log options).
  Point evaluate(std::vector<double> price) const;

  // Prices whose bound is (nearly) the largest: by bisection, exact, for one kind; for several by
  // bisection kind by kind and then subgradient steps (Polyak's rule). Stops early at the deadline.
  Point maximise(const SearchBudget& budget) const;

  bool fits(const std::vector<int64_t>& used) const;

 private:
  // The lower convex hull of one job's options of one kind, by rising GPUs. Only these options can
  // be the cheapest at some price. Points first..last of the arrays below.
  struct Hull {
    int first = 0, last = 0;
  };
  void add_hull(const std::vector<AssignmentOption>& options, int kind);
  void bisect(Point& point, int kind, const SearchBudget& budget) const;
  void ascend(Point& best, const SearchBudget& budget) const;

  const AssignmentProblem& problem_;
  size_t kinds_;
  std::vector<Hull> hulls_;  // job * kinds + kind
  std::vector<double> value_;
  std::vector<int64_t> gpus_;
  std::vector<int> option_;
};

}  // namespace adaptdl
