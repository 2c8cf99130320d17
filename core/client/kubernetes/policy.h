#pragma once

// The policy of the operators that `adaptdl install` put into a cluster.

#include <string>

#include "core/client/kubernetes/connection.h"
#include "core/client/policy_choice.h"
#include "core/formats/json.h"

namespace adaptdl::client {

// One thread.
class KubernetesPolicy {
 public:
  // Reads what the installation was given. Throws Error if there is none, or it may not be read.
  KubernetesPolicy(const ClusterChoice& cluster, bool verbose);

  PolicyChoice choice() const;

  // Has the operators start again, one after the other, with that one. Throws Error if they are of
  // another version than this program, which would change more of them.
  void set(const PolicyChoice& wanted);

 private:
  KubernetesConnection cluster_;
  std::string name_space_;
  Json given_;
};

}  // namespace adaptdl::client
