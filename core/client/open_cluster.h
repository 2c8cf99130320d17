#pragma once

// The jobs of the cluster that a command uses.

#include <memory>

#include "core/base/cancellation.h"
#include "core/client/cluster_choice.h"
#include "core/client/job_control.h"
#include "core/client/job_query.h"
#include "core/client/job_transfer.h"

namespace adaptdl::client {

// Each member may outlive the others; they share a connection or have their own.
struct ClusterJobs {
  std::unique_ptr<JobQuery> query;
  std::unique_ptr<JobControl> control;
  std::unique_ptr<JobTransfer> transfer;
};

// Sends nothing to the cluster yet. `verbose`: logs each request. Throws UsageError if the scope is
// not supported on this machine, and Error for an unusable kubeconfig. `cancel`, which outlives the
// members, ends every request to a Kubernetes cluster.
ClusterJobs open_cluster(const ClusterChoice& choice, bool verbose, const JobScope& scope = {},
                         const Cancellation* cancel = nullptr);

}  // namespace adaptdl::client
