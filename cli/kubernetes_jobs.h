#pragma once

// The jobs of a Kubernetes cluster with adaptdl's operator.

#include <memory>

#include "cli/cluster_choice.h"
#include "cli/cluster_jobs.h"

namespace adaptdl::cli {

// Throws Error if the kubeconfig cannot be used. Requires: the choice is not the local cluster.
std::unique_ptr<ClusterJobs> open_kubernetes_jobs(const ClusterChoice& choice, bool verbose,
                                                  const JobScope& scope = {});

}  // namespace adaptdl::cli
