#pragma once

// `adaptdl submit` to a Kubernetes cluster.

#include <memory>

#include "cli/job_request.h"
#include "cli/kubernetes_cluster.h"

namespace adaptdl::cli {

// Reads the job file and the flags; nothing is built or asked of the cluster yet. `cluster` and
// `arguments` outlive it. Throws UsageError or Error.
std::unique_ptr<JobRequest> kubernetes_job_request(KubernetesCluster& cluster,
                                                   const Arguments& arguments);

}  // namespace adaptdl::cli
