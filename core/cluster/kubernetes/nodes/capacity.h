#pragma once

// The resources of nodes, and what pods take of them.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/formats/json.h"
#include "core/sched/cluster.h"

namespace adaptdl::kubernetes {

// The request of a pod's spec, as Kubernetes' scheduler counts it: the sum of the containers'
// requests (limits where there is no request), or an init container's request if that is larger;
// sidecars (init containers that are always restarted) are added to both. Pod-level requests
// replace that; the overhead is added. "cpu" in millicores, "memory" in bytes, others in units;
// "pods" is 1. Never throws: an unreadable amount counts as 0, since the API server has accepted
// the pod.
Resources pod_request(const Json& pod_spec);

struct NodeFacts {
  std::string name, hostname;  // hostname: label kubernetes.io/hostname, else the name
  std::string accelerator;     // label nvidia.com/gpu.product or a cloud's; "" if there is none
  Resources allocatable;
  bool ready = false;    // its condition, and not being deleted
  bool leaving = false;  // cordoned, or being drained: it gets no new pods, and its pods must move
  Json taints;           // those that keep pods away; a list
  std::map<std::string, std::string> labels;

  bool takes_pods() const { return ready && !leaving; }
  bool operator==(const NodeFacts&) const = default;
};

// `accelerator_label`: of nodes, naming the kind of their accelerators; "": those that vendors use.
// Never throws.
NodeFacts read_node(const Json& object, const std::string& accelerator_label = "");

// The kind of accelerators of the nodes with these names, of `nodes`, by name; nothing if they are
// unlike or unknown, or if none of `nodes` has a kind.
std::optional<std::string> accelerator_of(const std::vector<std::string>& names,
                                          const std::map<std::string, NodeFacts>& nodes);

// Whether a pod of this spec tolerates every taint with the effect NoSchedule or NoExecute.
bool tolerates(const Json& pod_spec, const Json& taints);

}  // namespace adaptdl::kubernetes
