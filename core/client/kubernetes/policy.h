#pragma once

// The policy of the operators that `adaptdl install` installed in a cluster.

#include <string>

#include "core/client/kubernetes/connection.h"
#include "core/client/policy_choice.h"
#include "core/formats/json.h"

namespace adaptdl::client {

// One thread.
class KubernetesPolicy {
 public:
  // Reads the installation's values. Throws Error if there is no installation, or the user may not
  // read it.
  KubernetesPolicy(const ClusterChoice& cluster, bool verbose);

  PolicyChoice choice() const;

  // Restarts the operators, one after the other, with this policy. Throws Error if their version is
  // not this program's, since that would change more than the policy.
  void set(const PolicyChoice& wanted);

 private:
  KubernetesConnection cluster_;
  std::string name_space_;
  Json given_;
};

}  // namespace adaptdl::client
