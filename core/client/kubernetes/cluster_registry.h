#pragma once

// The registry in a Kubernetes cluster that `adaptdl install` or AdaptDL's chart installs: adaptdl
// pushes images to it through the API server, and the nodes pull them from their own port.

#include <memory>
#include <string>

#include "core/client/kubernetes/connection.h"
#include "core/oci/reference.h"
#include "core/oci/transport.h"

namespace adaptdl::client {

struct ClusterRegistry {
  oci::Reference where;  // the nodes' name for it: localhost:PORT/adaptdl-submit
  // How to reach it from here; the cluster outlives all copies of it. To the port `push` of the
  // registry's pod, which listens there on its loopback address; without such a port, as of
  // AdaptDL's chart, by the API server's proxy for Services.
  oci::RegistryProxy proxy;
};

// The Service adaptdl-registry with the label app=docker-registry and a node port `registry`: the
// only one, or of several the one in the operator's namespace. Checks that it answers. Throws Error
// if there is none or cannot be told from others, the user may not use it, or it wants credentials;
// `otherwise` tells the user what to do then.
ClusterRegistry find_cluster_registry(KubernetesConnection& cluster, const std::string& otherwise);

}  // namespace adaptdl::client
