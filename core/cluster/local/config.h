#pragma once

// How the local service schedules, from the section `local` of CONFIG/config.yaml:
//
//   local:
//     policy: proportional          # adaptdl-policy(5)
//     options: {preference: 6}      # of that policy
//     slots: 4                      # instead of what the machine has; from the next start on
//     interval: 10                  # s between rounds when nothing happens
//
// Other sections of the file are not looked at here.

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/policy/policy.h"

namespace adaptdl::local {

struct ServiceConfig {
  std::string policy;                     // one of policies()
  std::map<std::string, double> options;  // that were given
  std::optional<int> slots;               // 1 to 1024
  double interval_s = 10;                 // 1 to 86400
};

std::string config_path();

// Defaults if there is no file. Throws Error "FILE:LINE: ..." for what is not allowed; unknown
// policies and options are told with those that are known.
ServiceConfig read_service_config(const std::string& path);

}  // namespace adaptdl::local
