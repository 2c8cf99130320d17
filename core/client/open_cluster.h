#pragma once

// The jobs of the cluster that a command is about.

#include <memory>

#include "core/client/cluster_choice.h"
#include "core/client/job_control.h"
#include "core/client/job_query.h"
#include "core/client/job_transfer.h"

namespace adaptdl::client {

// Each may outlive the others, and goes its own way to the cluster or shares one.
struct ClusterJobs {
  std::unique_ptr<JobQuery> query;
  std::unique_ptr<JobControl> control;
  std::unique_ptr<JobTransfer> transfer;
};

// Nothing is asked of the cluster yet. `verbose`: tells each request. Throws UsageError for a
// JobScope of this machine's jobs, and Error if a kubeconfig cannot be used.
ClusterJobs open_cluster(const ClusterChoice& choice, bool verbose, const JobScope& scope = {});

}  // namespace adaptdl::client
