#pragma once

// The scheduling policy of a cluster, as commands know it.

#include <map>
#include <string>

#include "core/client/cluster_choice.h"
#include "core/policy/policy.h"

namespace adaptdl::client {

struct PolicyChoice {
  std::string name;
  std::map<std::string, double> options = {};  // that were given
  std::string by = {};  // "service", "operator", or the file that a new service would read
};

// The policy in this machine's configuration file. Throws Error "FILE:LINE: ...".
PolicyChoice configured_policy();

// The policy of the cluster: that of its operator or service, else the one that a new service would
// use. Throws Error, also if reading it is forbidden.
PolicyChoice present_policy(const ClusterChoice& cluster, bool verbose);

// Throws Error for a policy that this version does not know.
const PolicyInfo& info_of(const PolicyChoice& policy);

// The given value, else the default.
double value_of(const PolicyOption& option, const PolicyChoice& policy);

}  // namespace adaptdl::client
