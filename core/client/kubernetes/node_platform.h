#pragma once

// The platform of a job's image: that of the nodes on which the job would run.

#include <optional>
#include <vector>

#include "core/formats/json.h"
#include "core/job/accelerators.h"
#include "core/oci/image.h"

namespace adaptdl::client {

struct NodePlatform {
  oci::Platform platform;
  bool pins = false;  // other nodes have another platform: the job must stay on these
};

// `nodes`: objects of the API. `pod`: the spec of the job's pods; its node selector, required
// affinity, tolerations and requests select the nodes, and of these the job's `accelerators`,
// unless they select none; if there are none, all nodes count. `wanted`: the user's choice. Without
// it, the result is this machine's platform if a node has it or no platform is known, else the only
// platform of these nodes. Throws UsageError if the user must choose. Pure.
NodePlatform node_platform(const std::vector<Json>& nodes, const Json& pod,
                           const Accelerators& accelerators,
                           const std::optional<oci::Platform>& wanted);

}  // namespace adaptdl::client
