#pragma once

// What a change of allocation costs a job. The loss is certain and comes at once; the gain lasts as
// long as the new allocation, or until the job's end. Both are unknown beforehand, but the longer
// something has lasted, the longer it will probably still last.

#include <optional>

#include "core/policy/snapshot.h"

namespace adaptdl {

// E[log(1 + lost / T)], the expected logarithm of the factor by which a time of length T becomes
// longer through `lost` seconds, for P(T > t) = scale / (scale + t): a Lomax distribution of shape
// 1, whose median is `scale` (Lindy's law). With u = lost / scale that is u log(u) / (u - 1).
// Requires: lost_s >= 0, scale_s > 0. >= 0, and concave in lost_s.
double expected_log_loss(double lost_s, double scale_s);

// The costs of changes for one job. Immutable, any thread.
class ChangeCost {
 public:
  // `unmeasured_s`: the rescale's cost for a job that has not measured its own.
  ChangeCost(const JobSnapshot& job, double unmeasured_s);

  // Seconds that a change takes if all replicas are new: rescale and start, >= 0.
  double whole_s() const { return rescale_s_ + start_s_; }

  // The cost of a change, as the logarithm of a factor of goodput, >= 0. `waits`: the fraction of
  // the new goodput that is missing while new replicas start, 0 to 1. `goodput`: after the change,
  // samples/s, by which a job that tells its remaining work knows its end.
  double operator()(double waits, double goodput) const;

  // Whether the job tells its remaining work.
  bool knows_end() const { return remaining_samples_.has_value(); }

 private:
  double rescale_s_, start_s_;
  double scale_s_;  // the mean time that its allocations have lasted so far
  std::optional<double> remaining_samples_;
};

}  // namespace adaptdl
