#pragma once

// torch_reference.json: what Python's torch.optim and lr_scheduler compute (torch_reference.py).

#include <nlohmann/json_fwd.hpp>

#include "core/job/training_spec.h"

namespace adaptdl::test {

nlohmann::json torch_reference();

// Settings of which one section is given, as it would stand in adaptdl.yaml.
TrainingSpec spec_with(const char* section, const nlohmann::json& value);

}  // namespace adaptdl::test
