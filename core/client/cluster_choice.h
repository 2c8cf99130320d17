#pragma once

// Which cluster a command is about: --cluster or ADAPTDL_CLUSTER, else `cluster` of the
// configuration file, else local; for `kubectl adaptdl` the current context instead of the file's.
// Nothing here touches a network.

#include <string>

#include "core/kube/config.h"

namespace adaptdl::client {

inline constexpr const char* kLocalCluster = "local";
inline constexpr const char* kKubernetesCluster = "kubernetes";  // the current context's

struct ClusterChoice {
  std::string name;  // kLocalCluster, kKubernetesCluster, or the name of a kubeconfig's context
  std::string by;    // "--cluster or ADAPTDL_CLUSTER", the configuration file's path, or "default"
  kube::ConfigOptions kubernetes = {};  // what to load of kubeconfigs, unless it is local

  bool local() const { return name == kLocalCluster; }
};

// What was said on the command line, or by its variables; "" where nothing was.
struct ClusterFlags {
  std::string cluster, context, kubeconfig, name_space;
  bool kubectl = false;  // called as its plugin: about its current context, if nothing else is said
};

// --namespace, --context and --kubeconfig mean a Kubernetes cluster, if --cluster does not say
// which. Throws UsageError if they contradict it, and Error "FILE:LINE: ..." for a configuration
// file that cannot be read.
ClusterChoice chosen_cluster(const ClusterFlags& flags);

// As if --cluster said `name`.
ClusterChoice cluster_named(const std::string& name, const std::string& by,
                            const ClusterFlags& flags);

// The kubeconfig's side of it. Throws Error, which names `--cluster local`, if there is no such
// context, or no kubeconfig. Requires: it is not local.
kube::Config kubernetes_config(const ClusterChoice& choice);

}  // namespace adaptdl::client
