#pragma once

// `adaptdl submit` to a Kubernetes cluster.

#include <memory>

#include "core/client/job_request.h"
#include "core/client/kubernetes/connection.h"

namespace adaptdl::client {

// Builds nothing and sends no request yet. `cluster` outlives the result. Throws UsageError or
// Error.
std::unique_ptr<JobRequest> kubernetes_job_request(KubernetesConnection& cluster,
                                                   Submission submission);

}  // namespace adaptdl::client
