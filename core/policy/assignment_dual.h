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

  // Prices whose bound is (nearly) the largest: exact for one kind; for several kind by kind, and
  // then 60 to 600 subgradient steps (Polyak's rule), as the budget allows. Stops early at the
  // deadline. O(options) for each kind, O(jobs * kinds * log options) for each step.
  Point maximise(const SearchBudget& budget) const;

  bool fits(const std::vector<int64_t>& used) const;

  // Changes choices, and `used`, until all fit: at each step the choice that costs least, at these
  // prices, for each GPU that it frees. O(options + changes * log jobs) for each overused kind, a
  // few times as much where the room on other kinds runs out.
  void make_fit(Point& point) const;

 private:
  // The lower convex hull of one job's options of one kind, by rising GPUs and so by falling
  // values. Only these options can be the cheapest at some price. Points first..last of the arrays
  // below.
  struct Hull {
    int first = 0, last = 0;
  };
  struct Choice {
    int point = -1;  // -1: none
    size_t kind = 0;
    double cost = 0;
  };
  struct Change {
    double rate = 0;  // what it costs for each GPU that it frees
    size_t job = 0;
    int point = -1;  // -1: none
    size_t kind = 0;
  };
  void add_hull(const std::vector<AssignmentOption>& options, int kind);
  Choice cheapest(size_t job, const std::vector<double>& price, size_t without_kind) const;
  double clearing_price(const std::vector<double>& price, size_t kind) const;
  void improve_price(Point& point, size_t kind) const;
  Change cheapest_change(const Point& point, size_t job) const;
  void make_fit(Point& point, size_t kind) const;
  void ascend(Point& best, double length, const SearchBudget& budget) const;

  const AssignmentProblem& problem_;
  size_t kinds_;
  std::vector<Hull> hulls_;  // job * kinds + kind
  std::vector<double> value_;
  std::vector<int64_t> gpus_;
  std::vector<int> option_;
};

}  // namespace adaptdl
