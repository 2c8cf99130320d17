#pragma once

// The best goodput of one job for every allocation that a policy considers.

#include <array>
#include <optional>
#include <vector>

#include "core/goodput/goodput.h"

namespace adaptdl {

// Computes each value once, on first use. The step-time model distinguishes only one node and
// several nodes, so there are two values per number of replicas. One thread at a time.
class GoodputTable {
 public:
  // For a job that has measured nothing: goodput is `speed` > 0 times replicas^power, 0 to 1, on
  // any nodes.
  explicit GoodputTable(double speed = 1, double power = 1) : speed_(speed), power_(power) {}
  GoodputTable(const GoodputModel& model, const BatchBounds& bounds)
      : model_(model), bounds_(bounds) {}

  // Samples/s with the best batch. Requires: 0 <= nodes <= replicas, both zero or neither; zero
  // replicas give zero. A few microseconds the first time, nanoseconds again.
  double at(int nodes, int replicas);

 private:
  std::optional<GoodputModel> model_;
  BatchBounds bounds_;
  double speed_ = 1, power_ = 1;
  std::array<std::vector<double>, 2> known_;  // one node, several; by replicas; negative = not yet
};

}  // namespace adaptdl
