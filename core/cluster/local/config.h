#pragma once

// The scheduling settings of the local service, in the section `local` of CONFIG/config.yaml:
//
//   local:
//     policy: proportional          # adaptdl-policy(5)
//     options: {preference: 6}      # of that policy
//     slots: 4                      # default: what the machine has; read when the service starts.
//                                   # By kind: {fast: 2, slow: 6}
//     interval: 10                  # s between rounds when nothing happens
//
// Other sections of the file are ignored here.

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/cluster/local/slot_kinds.h"
#include "core/policy/policy.h"

namespace adaptdl::local {

struct ServiceConfig {
  std::string policy;                     // one of policies()
  std::map<std::string, double> options;  // only those in the file
  std::optional<SlotCounts> slots;
  double interval_s = 10;  // 1 to 86400
};

std::string config_path();

// Returns the defaults if there is no file. Throws Error "FILE:LINE: ..." for invalid values; for
// an unknown policy or option the error lists the known ones.
ServiceConfig read_service_config(const std::string& path);

}  // namespace adaptdl::local
