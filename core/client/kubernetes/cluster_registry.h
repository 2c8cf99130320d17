#pragma once

// The registry in a Kubernetes cluster that AdaptDL's chart installs: images are pushed to it
// through the API server, and its nodes pull them from their own port.

#include <memory>
#include <string>

#include "core/client/kubernetes/connection.h"
#include "core/oci/reference.h"
#include "core/oci/transport.h"

namespace adaptdl::client {

struct ClusterRegistry {
  oci::Reference where;      // as the nodes name it: localhost:PORT/adaptdl-submit
  oci::RegistryProxy proxy;  // how it is reached from here; the cluster outlives it
};

// The Service adaptdl-registry, of any namespace, with the label app=docker-registry and a port
// `registry` that the nodes have, too. It is asked whether it answers. Throws Error that says what
// to set: there is none, it may not be used, or it wants credentials. `otherwise`: what to do then.
ClusterRegistry find_cluster_registry(KubernetesConnection& cluster, const std::string& otherwise);

}  // namespace adaptdl::client
