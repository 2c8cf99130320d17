#pragma once

#include <string>

#include "core/client/kubernetes/connection.h"

namespace adaptdl::client {

// The spec of a PersistentVolumeClaim that pods on several nodes write. An empty `wanted_class`
// means the first class that is known to be shared among nodes, else the cluster's default. Throws
// Error.
Json shared_claim_spec(KubernetesConnection& cluster, const std::string& size,
                       const std::string& wanted_class);

}  // namespace adaptdl::client
