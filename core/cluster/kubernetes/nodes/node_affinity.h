#pragma once

// Which nodes a pod's spec allows, by node selector and required node affinity. These functions
// never throw.

#include <map>
#include <string>

#include "core/cluster/kubernetes/nodes/capacity.h"
#include "core/formats/json.h"

namespace adaptdl::kubernetes {

// The labels that nodes must have: spec.nodeSelector.
std::map<std::string, std::string> node_selector(const Json& pod_spec);

// The required node affinity: requiredDuringSchedulingIgnoredDuringExecution, whose terms are
// alternatives. Null if the pod has none; then every node is allowed.
const Json& required_affinity(const Json& pod_spec);

// Whether `node` meets one of the terms; every node meets null. A term that the API server would
// refuse (an unknown operator, a wrong type) matches no node.
bool meets_affinity(const Json& required, const NodeFacts& node);

// A text for messages, such as "zone In a,b; disk Exists, or metadata.name NotIn n1". Equal texts
// mean the same.
std::string affinity_text(const Json& required);

}  // namespace adaptdl::kubernetes
