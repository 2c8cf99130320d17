#pragma once

// Copies files of jobs in a Kubernetes cluster, and runs commands in their pods.

#include <memory>

#include "core/client/job_transfer.h"
#include "core/client/kubernetes/connection.h"

namespace adaptdl::client {

std::unique_ptr<JobTransfer> kubernetes_transfer(std::shared_ptr<KubernetesConnection> cluster);

}  // namespace adaptdl::client
