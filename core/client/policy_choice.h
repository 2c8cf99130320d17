#pragma once

// The policy that shares a cluster among its jobs, as commands know it.

#include <map>
#include <string>

#include "core/client/cluster_choice.h"
#include "core/policy/policy.h"

namespace adaptdl::client {

struct PolicyChoice {
  std::string name;
  std::map<std::string, double> options = {};  // that were given
  std::string by = {};  // "service", "operator", or the file of what a service would go by
};

// What the configuration file says for this machine. Throws Error "FILE:LINE: ...".
PolicyChoice configured_policy();

// Of the cluster that the command is about: what its operator or service goes by, else what a
// service would that starts now. Throws Error, also if that may not be read.
PolicyChoice present_policy(const ClusterChoice& cluster, bool verbose);

// Throws Error for one that only another version knows.
const PolicyInfo& info_of(const PolicyChoice& policy);

// As given, or else its default.
double value_of(const PolicyOption& option, const PolicyChoice& policy);

}  // namespace adaptdl::client
