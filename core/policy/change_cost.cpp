#include "core/policy/change_cost.h"

#include <algorithm>
#include <cmath>

#include "core/policy/job_weights.h"

namespace adaptdl {

double expected_log_loss(double lost_s, double scale_s) {
  const double u = lost_s / scale_s;
  if (!(u > 0)) return 0;
  // Near u = 1 the quotient is 0 / 0; its series is 1 + (u - 1) / 2.
  return std::abs(u - 1) < 1e-6 ? 1 + (u - 1) / 2 : u * std::log(u) / (u - 1);
}

ChangeCost::ChangeCost(const JobSnapshot& job, double unmeasured_s)
    : rescale_s_(rescale_cost_s(job, unmeasured_s)),
      start_s_(job.hints.start_cost_s.value_or(0)),
      scale_s_((job.age_s + whole_s()) / (job.restarts + 1)),
      remaining_samples_(remaining_samples(job.hints)) {}

double ChangeCost::operator()(double waits, double goodput) const {
  const double lost = rescale_s_ + start_s_ * std::clamp(waits, 0.0, 1.0);
  if (!(lost > 0)) return 0;
  if (!remaining_samples_ || !(goodput > 0)) return expected_log_loss(lost, scale_s_);
  // The next change or the end, whichever comes first.
  const double remaining_s = *remaining_samples_ / goodput;
  return std::log1p(lost * (1 / std::max(remaining_s, 1e-9) + 1 / scale_s_));
}

}  // namespace adaptdl
