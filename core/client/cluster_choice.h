#pragma once

// Which cluster a command uses: --cluster or ADAPTDL_CLUSTER, else `cluster` of the configuration
// file, else local. `kubectl adaptdl` uses the current context instead of the file's. Nothing here
// touches a network.

#include <string>

#include "core/kube/config.h"

namespace adaptdl::client {

inline constexpr const char* kLocalCluster = "local";
inline constexpr const char* kKubernetesCluster = "kubernetes";  // the current context's

struct ClusterChoice {
  std::string name;  // kLocalCluster, kKubernetesCluster, or the name of a kubeconfig context
  std::string by;    // "--cluster or ADAPTDL_CLUSTER", the configuration file's path, or "default"
  kube::ConfigOptions kubernetes = {};  // what to load of kubeconfigs, unless it is local

  bool local() const { return name == kLocalCluster; }
};

// Values of the flags and their variables; "" if not given.
struct ClusterFlags {
  std::string cluster, context, kubeconfig, name_space;
  bool kubectl = false;  // called as kubectl's plugin: uses its current context by default
};

// --namespace, --context and --kubeconfig imply a Kubernetes cluster, if --cluster does not say
// which. Throws UsageError if they contradict it, and Error "FILE:LINE: ..." for an unreadable
// configuration file.
ClusterChoice chosen_cluster(const ClusterFlags& flags);

// As if --cluster said `name`.
ClusterChoice cluster_named(const std::string& name, const std::string& by,
                            const ClusterFlags& flags);

// The kubeconfig's settings of the cluster. Throws an Error that suggests `--cluster local` if the
// context or a kubeconfig is missing. Requires: the choice is not local.
kube::Config kubernetes_config(const ClusterChoice& choice);

}  // namespace adaptdl::client
