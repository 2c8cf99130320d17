#pragma once

// What the launcher's welcome tells the worker.

#include <c10/core/Device.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/session/trainer.h"

namespace adaptdl {

struct WorkerSettings {
  std::string program;                 // path of the train.pt
  std::vector<std::string> overrides;  // --set key=value
  std::string device = "cpu";
  int threads = 1;
  TrainOptions options;

  // Throws Error when something is missing.
  static WorkerSettings from(const nlohmann::json& settings);
};

}  // namespace adaptdl
