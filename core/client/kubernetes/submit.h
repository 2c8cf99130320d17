#pragma once

// `adaptdl submit` to a Kubernetes cluster.

#include <memory>

#include "core/client/job_request.h"
#include "core/client/kubernetes/connection.h"

namespace adaptdl::client {

// Nothing is built or asked of the cluster yet. `cluster` outlives it. Throws UsageError or Error.
std::unique_ptr<JobRequest> kubernetes_job_request(KubernetesConnection& cluster,
                                                   Submission submission);

}  // namespace adaptdl::client
