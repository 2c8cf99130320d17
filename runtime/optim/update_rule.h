#pragma once

// The optimizers of the settings, as rules (adaptdl/optimizer.h). A new one is a rule in rules.h,
// if it has one for each element, and a class in update_rule.cpp.

#include <memory>

#include "adaptdl/optimizer.h"
#include "core/job/training_spec.h"

namespace adaptdl {

// Requires: kind is not program.
std::unique_ptr<UpdateRule> make_update_rule(OptimizerSpec::Kind kind,
                                             const OptimizerSettings& settings);

}  // namespace adaptdl
