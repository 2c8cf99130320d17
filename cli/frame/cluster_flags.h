#pragma once

// The flags that say which cluster, and which of its jobs, a command is about.

#include "cli/frame/parse.h"
#include "core/client/cluster_choice.h"
#include "core/client/open_cluster.h"

namespace adaptdl::cli {

client::ClusterFlags cluster_flags(const Arguments& arguments);

// By --cluster, --namespace, --context and --kubeconfig: client::chosen_cluster().
client::ClusterChoice chosen_cluster(const Arguments& arguments);

// That cluster's jobs; of these the ones that --all-namespaces and --selector name, of commands
// that have these flags.
client::ClusterJobs open_cluster(const Arguments& arguments);

}  // namespace adaptdl::cli
