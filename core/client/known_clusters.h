#pragma once

// The Kubernetes clusters in which this user's commands have found AdaptDL, in STATE/clusters.json.
// Nothing here touches a network.

#include <string>

#include "core/kube/config.h"

namespace adaptdl::client {

// Call after a command has found AdaptDL there. Cheap if the cluster is known. Ignores an
// unwritable state directory.
void remember_cluster(const kube::Config& config);

// For a submission to the local cluster: one sentence if the kubeconfig's current context is a
// known cluster and the sentence has never been shown; else "".
std::string cluster_hint();

}  // namespace adaptdl::client
