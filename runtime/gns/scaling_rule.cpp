#include "runtime/gns/scaling_rule.h"

#include <algorithm>
#include <cmath>

namespace adaptdl::gns {

using Rule = TrainingSpec::ScalingRule;

double rate_scale(double planned, double actual) {
  return std::min(planned, std::max(actual, 1.0));
}

double lr_factor(Rule rule, const RuleInput& input) {
  switch (rule) {
    case Rule::adascale:
      return input.gain;
    case Rule::adamscale:
      return std::sqrt(input.gain);
    case Rule::linear:
      return input.scale;
    case Rule::sqrt:
      return std::sqrt(input.scale);
    case Rule::legw:
      break;
  }
  const double warmup = input.warmup_epochs * input.scale * input.epoch_iterations;
  return std::sqrt(input.scale) * (warmup > 0 ? std::min(1.0, input.progress / warmup) : 1.0);
}

}  // namespace adaptdl::gns
