#pragma once

// The policy that shares this machine, as commands know it.

#include <map>
#include <string>

#include "core/policy/policy.h"

namespace adaptdl::cli {

struct LocalPolicy {
  std::string name;
  std::map<std::string, double> options;  // that were given
  std::string by;                         // "service", or the configuration file
};

// What the configuration file says. Throws Error "FILE:LINE: ...".
LocalPolicy configured_policy();

// What the service that runs goes by, else what one would that starts now.
LocalPolicy local_policy();

// Throws Error for one that only another version knows.
const PolicyInfo& info_of(const LocalPolicy& policy);

// As given, or else its default.
double value_of(const PolicyOption& option, const LocalPolicy& policy);

}  // namespace adaptdl::cli
