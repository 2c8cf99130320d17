#pragma once

#include <string>

#include "cli/kubernetes_cluster.h"

namespace adaptdl::cli {

// Of volumes that pods on several nodes write: `wanted`; else, as AdaptDL has it, the first that is
// known to be shared among nodes; else "", the cluster's default. Throws Error.
std::string storage_class(KubernetesCluster& cluster, const std::string& wanted);

}  // namespace adaptdl::cli
