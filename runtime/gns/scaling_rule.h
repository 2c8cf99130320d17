#pragma once

// Learning-rate scaling rules: the factor on a parameter group's learning rate for one optimizer
// step at batch scale M/M0. Sources: AdaScale (arXiv 2007.05105) and Pollux's square root of its
// gain for Adam; linear scaling (arXiv 1706.02677); LEGW (arXiv 1901.08256).

#include "core/job/training_spec.h"

namespace adaptdl::gns {

struct RuleInput {
  double scale = 1;             // M / M0, > 0
  double gain = 1;              // of the group at that scale
  double progress = 0;          // scale-invariant iterations done
  double warmup_epochs = 0;     // LEGW's base_warmup_epochs
  double epoch_iterations = 1;  // data size / M0
};

// AdaScale: gain. AdamScale: sqrt(gain). Linear: scale. Sqrt: sqrt(scale). LEGW: sqrt(scale) times
// a linear warm-up over warmup_epochs * scale epochs (none when that is 0). Pure; any thread.
double lr_factor(TrainingSpec::ScalingRule rule, const RuleInput& input);

// The scale M/M0 by which the rate of a step goes that was planned for `planned` and has samples
// for `actual` <= planned, because its pass ends: that of its samples, but no less than 1 for want
// of them. So the last step of an epoch keeps the rate of the initial batch, as in PyTorch.
double rate_scale(double planned, double actual);

}  // namespace adaptdl::gns
