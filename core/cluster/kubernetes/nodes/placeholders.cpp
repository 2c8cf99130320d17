#include "core/cluster/kubernetes/nodes/placeholders.h"

#include <algorithm>

namespace adaptdl::kubernetes {

int SteadyWish::add(double now_s, int nodes) {
  while (!wishes_.empty() && wishes_.back().second <= nodes) wishes_.pop_back();
  wishes_.emplace_back(now_s, nodes);
  while (wishes_.front().first < now_s - patience_s_) wishes_.pop_front();
  return wishes_.front().second;
}

PlaceholderPlan plan_placeholders(const std::vector<Placeholder>& placeholders, int wished,
                                  const std::map<std::string, int>& replicas) {
  PlaceholderPlan plan;
  std::vector<Placeholder> present;
  for (const Placeholder& one : placeholders) {
    (one.over ? plan.remove : present).push_back(one);
  }
  const auto load = [&](const Placeholder& one) {
    if (one.node.empty()) return -1;
    const auto found = replicas.find(one.node);
    return found == replicas.end() ? 0 : found->second;
  };
  std::stable_sort(present.begin(), present.end(),
                   [&](const Placeholder& a, const Placeholder& b) { return load(a) > load(b); });
  const auto wanted = static_cast<size_t>(std::max(0, wished));
  plan.make = static_cast<int>(wanted - std::min(wanted, present.size()));
  for (size_t i = wanted; i < present.size(); ++i) plan.remove.push_back(present[i]);
  return plan;
}

Json make_placeholder(const std::string& name_space, const std::string& name,
                      const std::string& image, const Json& overlay) {
  // Prefers nodes with replicas, so that a node given up later is empty.
  Json pod = Json::parse(R"({
    "apiVersion": "v1", "kind": "Pod",
    "metadata": {
      "labels": {"adaptdl/placeholder": "true"},
      "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}},
    "spec": {
      "restartPolicy": "Always", "terminationGracePeriodSeconds": 0,
      "automountServiceAccountToken": false, "enableServiceLinks": false,
      "securityContext": {"runAsNonRoot": true, "runAsUser": 65534,
                          "seccompProfile": {"type": "RuntimeDefault"}},
      "tolerations": [{"key": "petuum.com/nodegroup", "operator": "Equal", "value": "adaptdl",
                       "effect": "NoSchedule"}],
      "affinity": {
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
          "topologyKey": "kubernetes.io/hostname", "namespaceSelector": {},
          "labelSelector": {"matchLabels": {"adaptdl/placeholder": "true"}}}]},
        "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
          "weight": 100, "podAffinityTerm": {
            "topologyKey": "kubernetes.io/hostname", "namespaceSelector": {},
            "labelSelector": {"matchLabels": {"adaptdl": "true"}}}}]}},
      "containers": [{
        "name": "placeholder",
        "resources": {"requests": {"cpu": "1m", "memory": "5Mi"}},
        "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                            "capabilities": {"drop": ["ALL"]}}}]}})");
  pod["metadata"]["name"] = name;
  pod["metadata"]["namespace"] = name_space;
  pod["spec"]["containers"][0]["image"] = image;
  if (overlay.is_object()) pod["spec"].merge_patch(overlay);
  return pod;
}

}  // namespace adaptdl::kubernetes
