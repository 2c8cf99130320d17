#pragma once

// What the launcher's welcome tells a replica.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runtime/session/trainer.h"

namespace adaptdl {

struct LaunchSettings {
  std::string program;                 // path of the train.pt, or of the executable
  std::vector<std::string> arguments;  // for an executable
  std::vector<std::string> overrides;  // --set key=value
  std::string device = "cpu";          // open_device()
  int threads = 1;                     // of LibTorch's operators
  TrainOptions options;

  // Throws Error when something is missing.
  static LaunchSettings from(const nlohmann::json& settings);
};

}  // namespace adaptdl
