#pragma once

// What nodes have, and what pods take of them.

#include <map>
#include <string>
#include <vector>

#include "core/formats/json.h"
#include "core/sched/cluster.h"

namespace adaptdl::kubernetes {

// What a pod's spec asks for, as the scheduler counts it: the containers' requests (limits where
// there is no request), or an init container's if that is more, sidecars (init containers that are
// restarted always) beside both, or what the pod says for itself as a whole, and the overhead.
// "cpu" in millicores, "memory" in bytes, others in units; "pods" is 1. Never throws: an amount
// that cannot be read counts as 0, since the API server has accepted the pod.
Resources pod_request(const Json& pod_spec);

struct NodeFacts {
  std::string name, hostname;  // the latter: label kubernetes.io/hostname, else the name
  std::string accelerator;     // label nvidia.com/gpu.product or a cloud's; "" if there is none
  Resources allocatable;
  bool ready = false;    // its condition, and not being deleted
  bool leaving = false;  // cordoned, or tainted to be emptied: nothing new goes there, and what is
                         // there is to move
  Json taints;           // those that keep pods away; a list
  std::map<std::string, std::string> labels;

  bool operator==(const NodeFacts&) const = default;
};

// Never throws.
NodeFacts read_node(const Json& object);

// Whether a pod of this spec may be put there: every taint with the effect NoSchedule or NoExecute
// is tolerated.
bool tolerates(const Json& pod_spec, const Json& taints);

}  // namespace adaptdl::kubernetes
