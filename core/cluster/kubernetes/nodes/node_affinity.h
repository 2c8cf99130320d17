#pragma once

// Which nodes a pod's spec leaves to it, by its node selector and by required node affinity. Never
// throw.

#include <map>
#include <string>

#include "core/cluster/kubernetes/nodes/capacity.h"
#include "core/formats/json.h"

namespace adaptdl::kubernetes {

// The labels that nodes must have: spec.nodeSelector.
std::map<std::string, std::string> node_selector(const Json& pod_spec);

// What nodes must be like: requiredDuringSchedulingIgnoredDuringExecution, whose terms are
// alternatives. Null if the pod asks for nothing; then every node will do.
const Json& required_affinity(const Json& pod_spec);

// Whether `node` meets one of its terms; null is met by all. What the API server would refuse (an
// unknown operator, a wrong type) matches no node.
bool meets_affinity(const Json& required, const NodeFacts& node);

// For people, such as "zone In a,b; disk Exists, or metadata.name NotIn n1": equal only for those
// that mean the same.
std::string affinity_text(const Json& required);

}  // namespace adaptdl::kubernetes
