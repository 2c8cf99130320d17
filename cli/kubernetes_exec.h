#pragma once

// `adaptdl exec` in a job's pods.

#include "cli/cluster_jobs.h"
#include "cli/kubernetes_cluster.h"

namespace adaptdl::cli {

// As ClusterJobs::exec. With a terminal on standard input and output, the command gets one, too.
int exec_in_pod(KubernetesCluster& cluster, const Json& job, const ExecRequest& request);

// What a node said of a command that could not be started, as an exit code; nothing if it says
// something else. Pure.
std::optional<int> start_failure(const std::string& message);

}  // namespace adaptdl::cli
