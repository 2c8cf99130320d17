#pragma once

#include <string>

#include "core/client/kubernetes/connection.h"

namespace adaptdl::client {

// Of a PersistentVolumeClaim that pods on several nodes write. Without `wanted_class` ("") of the
// first class that is known to be shared among nodes, else of the cluster's default. Throws Error.
Json shared_claim_spec(KubernetesConnection& cluster, const std::string& size,
                       const std::string& wanted_class);

}  // namespace adaptdl::client
