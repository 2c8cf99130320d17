#include "core/cluster/kubernetes/nodes/capacity.h"

#include <algorithm>
#include <array>
#include <limits>

#include "core/formats/json_fields.h"
#include "core/job/quantity.h"

namespace adaptdl::kubernetes {

namespace {

int64_t resource_amount(const std::string& resource, const Json& value) {
  try {
    const std::string written = value.is_string() ? value.get<std::string>() : value.dump();
    return resource == "cpu" ? parse_quantity_milli(written, resource)
                             : parse_quantity(written, resource);
  } catch (const Error&) {
    return 0;
  }
}

Resources amounts(const Json& object) {
  Resources result;
  if (!object.is_object()) return result;
  for (const auto& [name, value] : object.items()) result[name] = resource_amount(name, value);
  return result;
}

void add(Resources& to, const Resources& more) {
  for (const auto& [name, value] : more) {
    int64_t& sum = to[name];
    if (__builtin_add_overflow(sum, value, &sum)) sum = std::numeric_limits<int64_t>::max();
  }
}

void at_least(Resources& to, const Resources& other) {
  for (const auto& [name, value] : other) to[name] = std::max(to[name], value);
}

Resources container_request(const Json& container) {
  const Json& resources = member(container, "resources");
  Resources request = amounts(member(resources, "requests"));
  for (const auto& [name, value] : amounts(member(resources, "limits"))) {
    request.emplace(name, value);
  }
  return request;
}

bool tolerates_one(const Json& tolerations, const Json& taint) {
  return std::any_of(tolerations.begin(), tolerations.end(), [&](const Json& toleration) {
    const std::string effect = text_at(toleration, "effect"), key = text_at(toleration, "key");
    if (!effect.empty() && effect != text_at(taint, "effect")) return false;
    const bool exists = text_at(toleration, "operator") == "Exists";
    if (key.empty()) return exists;
    if (key != text_at(taint, "key")) return false;
    return exists || text_at(toleration, "value") == text_at(taint, "value");
  });
}

// Set by tools that drain a node: kubectl drain, autoscalers, spot termination handlers.
constexpr std::array<std::string_view, 7> kLeavingTaints = {
    "node.kubernetes.io/unschedulable",
    "ToBeDeletedByClusterAutoscaler",
    "karpenter.sh/disrupted",
    "node.kubernetes.io/out-of-service",
    "aws-node-termination-handler/spot-itn",
    "cloud.google.com/impending-node-termination",
    "kubernetes.azure.com/scalesetpriority-eviction"};

}  // namespace

Resources pod_request(const Json& spec) {
  Resources total, sidecars, initial;
  for (const Json& container : list_at(spec, "containers")) {
    add(total, container_request(container));
  }
  for (const Json& container : list_at(spec, "initContainers")) {
    const Resources request = container_request(container);
    if (text_at(container, "restartPolicy") == "Always") {
      add(sidecars, request);
      at_least(initial, sidecars);
    } else {
      Resources together = sidecars;
      add(together, request);
      at_least(initial, together);
    }
  }
  add(total, sidecars);
  at_least(total, initial);
  // Pod-level requests replace the sum of the containers.
  const Json& whole = member(spec, "resources");
  const Resources requests = amounts(member(whole, "requests"));
  for (const auto& [name, value] : amounts(member(whole, "limits"))) {
    if (total[name] == 0) total[name] = value;
  }
  for (const auto& [name, value] : requests) total[name] = value;
  add(total, amounts(member(spec, "overhead")));
  total["pods"] = 1;
  return total;
}

NodeFacts read_node(const Json& object, const std::string& accelerator_label) {
  const Json& metadata = member(object, "metadata");
  const Json& labels = object_at(metadata, "labels");
  const Json& spec = member(object, "spec");
  const Json& status = member(object, "status");
  NodeFacts node;
  node.name = text_at(metadata, "name");
  node.hostname = text_at(labels, "kubernetes.io/hostname");
  if (node.hostname.empty()) node.hostname = node.name;
  if (!accelerator_label.empty()) {
    node.accelerator = text_at(labels, accelerator_label.c_str());
  } else {
    for (const char* label : {"nvidia.com/gpu.product", "cloud.google.com/gke-accelerator",
                              "accelerator", "k8s.amazonaws.com/accelerator"}) {
      if (node.accelerator.empty()) node.accelerator = text_at(labels, label);
    }
  }
  for (const auto& [key, value] : labels.items()) node.labels[key] = text_at(labels, key.c_str());
  node.allocatable = amounts(member(status, "allocatable"));
  for (const Json& condition : list_at(status, "conditions")) {
    if (text_at(condition, "type") == "Ready") node.ready = text_at(condition, "status") == "True";
  }
  if (!text_at(metadata, "deletionTimestamp").empty()) node.ready = false;
  node.leaving = member(spec, "unschedulable") == true;
  node.taints = Json::array();
  for (const Json& taint : list_at(spec, "taints")) {
    const std::string effect = text_at(taint, "effect"), key = text_at(taint, "key");
    if (std::find(kLeavingTaints.begin(), kLeavingTaints.end(), key) != kLeavingTaints.end()) {
      node.leaving = true;
    }
    if (effect == "NoSchedule" || effect == "NoExecute") node.taints.push_back(taint);
  }
  return node;
}

std::optional<std::string> accelerator_of(const std::vector<std::string>& names,
                                          const std::map<std::string, NodeFacts>& nodes) {
  std::optional<std::string> kind;
  for (const std::string& name : names) {
    const auto found = nodes.find(name);
    if (found == nodes.end()) return std::nullopt;
    if (kind && *kind != found->second.accelerator) return std::nullopt;
    kind = found->second.accelerator;
  }
  const bool told_apart = std::any_of(nodes.begin(), nodes.end(), [](const auto& node) {
    return !node.second.accelerator.empty();
  });
  return told_apart ? kind : std::nullopt;
}

bool tolerates(const Json& pod_spec, const Json& taints) {
  const Json& tolerations = list_at(pod_spec, "tolerations");
  return std::all_of(taints.begin(), taints.end(),
                     [&](const Json& taint) { return tolerates_one(tolerations, taint); });
}

}  // namespace adaptdl::kubernetes
