#pragma once

// The settings that a replica receives in the launcher's welcome message.

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
  bool evaluate = false;               // instead of training
  TrainOptions options;

  // Throws Error if a setting is missing.
  static LaunchSettings from(const nlohmann::json& settings);
};

}  // namespace adaptdl
