#pragma once

// The Kubernetes clusters that this user's commands have found AdaptDL in, in
// STATE/clusters.json. Nothing here touches a network.

#include <string>

#include "core/kube/config.h"

namespace adaptdl::client {

// After a command has found it there. Costs nothing if it is known; a state directory that cannot
// be written is no reason to complain.
void remember_cluster(const kube::Config& config);

// For what goes to the local cluster: one sentence if the kubeconfig's current context is a cluster
// that is known, and the sentence has never been told; else "".
std::string cluster_hint();

}  // namespace adaptdl::client
