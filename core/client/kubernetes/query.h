#pragma once

// Reads the jobs of a Kubernetes cluster with adaptdl's operator.

#include <memory>

#include "core/client/job_query.h"
#include "core/client/kubernetes/connection.h"

namespace adaptdl::client {

std::unique_ptr<JobQuery> kubernetes_query(std::shared_ptr<KubernetesConnection> cluster,
                                           const JobScope& scope = {});

}  // namespace adaptdl::client
