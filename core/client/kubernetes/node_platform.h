#pragma once

// What processors a job's image is to be made for: those of the nodes that it would run on.

#include <optional>
#include <vector>

#include "core/formats/json.h"
#include "core/oci/image.h"

namespace adaptdl::client {

struct NodePlatform {
  oci::Platform platform;
  bool pins = false;  // other nodes would do but for it: the job is to be kept to these
};

// `nodes`: objects of the API. `pod`: the spec of the job's pods; by its node selector, required
// affinity, tolerations and requests are nodes told that they may run on, and if there are none all
// nodes count. `wanted`: of the user; else the one platform that these nodes have, or this
// machine's, if it is among theirs or nothing is known of them. Pure. Throws UsageError if it is to
// be chosen.
NodePlatform node_platform(const std::vector<Json>& nodes, const Json& pod,
                           const std::optional<oci::Platform>& wanted);

}  // namespace adaptdl::client
