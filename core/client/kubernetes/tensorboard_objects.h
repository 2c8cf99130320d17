#pragma once

// The Kubernetes resources of a TensorBoard instance, with AdaptDL's names. Pure.

#include <string>

#include "core/formats/json.h"

namespace adaptdl::client {

inline constexpr int kTensorboardPort = 6006;
inline constexpr const char* kTensorboardLabel = "adaptdl/tensorboard";  // on each; value: the name

// "adaptdl-tensorboard-NAME": the name of the Deployment, PersistentVolumeClaim and Service.
std::string tensorboard_object_name(const std::string& name);

// TensorBoard knows no users. Without `node_port` it listens on its pod's loopback address, where
// only those can reach it whom the API server lets forward ports to the pod.
Json tensorboard_deployment(const std::string& name, const std::string& image, bool node_port);

// Resources that are deleted with the Deployment; `deployment` is as stored.
Json tensorboard_owner(const Json& deployment);
Json tensorboard_claim(const std::string& name, const Json& spec, const Json& owner);
Json tensorboard_service(const std::string& name, const Json& owner);  // with a node port

// Why an instance's pod is not ready, for messages; "" if it is.
std::string why_not_ready(const Json& pod);

}  // namespace adaptdl::client
