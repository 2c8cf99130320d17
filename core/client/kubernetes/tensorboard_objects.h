#pragma once

// The objects of a TensorBoard instance on Kubernetes, named as AdaptDL names them. Pure.

#include <string>

#include "core/formats/json.h"

namespace adaptdl::client {

inline constexpr int kTensorboardPort = 6006;
inline constexpr const char* kTensorboardLabel = "adaptdl/tensorboard";  // on all; the name

// "adaptdl-tensorboard-NAME": of Deployment, Service and PersistentVolumeClaim.
std::string tensorboard_object_name(const std::string& name);

Json tensorboard_deployment(const std::string& name, const std::string& image);

// These go with the Deployment, as stored.
Json tensorboard_owner(const Json& deployment);
Json tensorboard_claim(const std::string& name, const Json& spec, const Json& owner);
Json tensorboard_service(const std::string& name, bool node_port, const Json& owner);

// Why an instance's pod does not serve, for people; "" if it does.
std::string why_not_ready(const Json& pod);

}  // namespace adaptdl::client
