#pragma once

// The flags that choose the cluster and the jobs of a command.

#include "cli/frame/parse.h"
#include "core/client/cluster_choice.h"
#include "core/client/open_cluster.h"

namespace adaptdl::cli {

client::ClusterFlags cluster_flags(const Arguments& arguments);

// By --cluster, --namespace, --context and --kubeconfig: client::chosen_cluster().
client::ClusterChoice chosen_cluster(const Arguments& arguments);

// The jobs of that cluster; only those that match --all-namespaces and --selector, for commands
// that have these flags. `cancel`: client::open_cluster().
client::ClusterJobs open_cluster(const Arguments& arguments, const Cancellation* cancel = nullptr);

}  // namespace adaptdl::cli
