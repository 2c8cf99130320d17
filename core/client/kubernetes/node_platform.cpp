#include "core/client/kubernetes/node_platform.h"

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "core/cluster/kubernetes/jobs/pod_builder.h"
#include "core/cluster/kubernetes/nodes/capacity.h"
#include "core/cluster/kubernetes/nodes/node_affinity.h"

namespace adaptdl::client {
namespace {

using kubernetes::NodeFacts;

std::string label(const NodeFacts& node, const std::string& name) {
  const auto found = node.labels.find(name);
  return found == node.labels.end() ? "" : found->second;
}

bool may_run_on(const Json& pod, const Resources& request, const NodeFacts& node) {
  if (!kubernetes::tolerates(pod, node.taints)) return false;
  for (const auto& [name, value] : kubernetes::node_selector(pod)) {
    if (label(node, name) != value) return false;
  }
  if (!kubernetes::meets_affinity(kubernetes::required_affinity(pod), node)) return false;
  return std::all_of(request.begin(), request.end(), [&](const auto& amount) {
    const auto there = node.allocatable.find(amount.first);
    return amount.second <= (there == node.allocatable.end() ? 0 : there->second);
  });
}

std::set<std::string> architectures(const std::vector<NodeFacts>& nodes) {
  std::set<std::string> result;
  for (const NodeFacts& node : nodes) {
    const std::string architecture = label(node, "kubernetes.io/arch");
    const std::string system = label(node, "kubernetes.io/os");
    if (!architecture.empty() && (system.empty() || system == "linux")) result.insert(architecture);
  }
  return result;
}

oci::Platform one_of(const std::set<std::string>& architectures) {
  const oci::Platform own = oci::this_platform();
  if (architectures.empty() || architectures.contains(own.architecture)) return own;
  if (architectures.size() > 1) {
    throw UsageError(
        fmt::format("the nodes have the architectures {}; choose the one for the image with "
                    "--platform",
                    fmt::join(architectures, ", ")));
  }
  return {"linux", *architectures.begin()};
}

}  // namespace

NodePlatform node_platform(const std::vector<Json>& nodes, const Json& pod,
                           const Accelerators& accelerators,
                           const std::optional<oci::Platform>& wanted) {
  Json spec = pod;
  kubernetes::add_toleration(spec);  // as the operator does
  const Resources request = kubernetes::pod_request(spec);
  std::vector<NodeFacts> all, fitting, usable;
  for (const Json& node : nodes) {
    const NodeFacts& facts = all.emplace_back(kubernetes::read_node(node));
    if (!may_run_on(spec, request, facts)) continue;
    fitting.push_back(facts);
    if (among(accelerators, facts.accelerator)) usable.push_back(facts);
  }
  std::set<std::string> found = architectures(usable);
  // The operator may read kinds from another label.
  if (found.empty()) found = architectures(fitting);
  if (found.empty()) found = architectures(all);
  const oci::Platform platform = wanted ? *wanted : one_of(found);
  const bool pins = std::any_of(found.begin(), found.end(), [&](const std::string& architecture) {
    return architecture != platform.architecture;
  });
  return {platform, pins};
}

}  // namespace adaptdl::client
