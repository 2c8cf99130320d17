#pragma once

// Changes the jobs of a Kubernetes cluster with adaptdl's operator.

#include <memory>

#include "core/client/job_control.h"
#include "core/client/kubernetes/connection.h"

namespace adaptdl::client {

std::unique_ptr<JobControl> kubernetes_control(std::shared_ptr<KubernetesConnection> cluster);

}  // namespace adaptdl::client
