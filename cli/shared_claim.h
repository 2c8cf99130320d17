#pragma once

#include <string>

#include "cli/kubernetes_cluster.h"

namespace adaptdl::cli {

// Of a PersistentVolumeClaim that pods on several nodes write. Without `wanted_class` ("") of the
// first class that is known to be shared among nodes, else of the cluster's default. Throws Error.
Json shared_claim_spec(KubernetesCluster& cluster, const std::string& size,
                       const std::string& wanted_class);

}  // namespace adaptdl::cli
