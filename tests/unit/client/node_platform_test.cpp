#include "core/client/kubernetes/node_platform.h"

#include <doctest/doctest.h>

#include "core/base/error.h"

namespace adaptdl::client {
namespace {

Json node(const std::string& architecture, Json labels = Json::object(),
          Json taints = Json::array(), const char* gpus = "0") {
  labels["kubernetes.io/arch"] = architecture;
  return {{"metadata", {{"name", "n"}, {"labels", labels}}},
          {"spec", {{"taints", taints}}},
          {"status",
           {{"allocatable",
             {{"cpu", "4"}, {"memory", "4Gi"}, {"pods", "10"}, {"nvidia.com/gpu", gpus}}}}}};
}

Json taint(const std::string& key, const std::string& value) {
  return Json::array({{{"key", key}, {"value", value}, {"effect", "NoSchedule"}}});
}

const Json kPod = {{"containers", Json::array({{{"name", "main"}}})}};

std::string of(const std::vector<Json>& nodes, const Json& pod = kPod,
               const Accelerators& accelerators = {}) {
  const NodePlatform found = node_platform(nodes, pod, accelerators, std::nullopt);
  return found.platform.architecture + (found.pins ? " pinned" : "");
}

}  // namespace

TEST_CASE("the platform is that of the nodes which a job's pods may run on") {
  const std::string own = oci::this_platform().architecture;
  const std::string other = own == "arm64" ? "amd64" : "arm64";
  CHECK(of({}) == own);
  CHECK(of({node(other)}) == other);
  CHECK(of({node(own), node(other)}) == own + " pinned");
  // Where the pods cannot go does not count: a tainted control plane, a node without GPUs ...
  CHECK(of({node(own, {}, taint("node-role.kubernetes.io/control-plane", "")), node(other)}) ==
        other);
  Json pod = kPod;
  pod["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 1;
  CHECK(of({node(own), node(other, {}, Json::array(), "8")}, pod) == other);
  // ... or one that it does not choose.
  pod = kPod;
  pod["nodeSelector"] = {{"pool", "new"}};
  CHECK(of({node(own), node(other, {{"pool", "new"}})}, pod) == other);
  pod = kPod;
  pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = Json::parse(
      R"({"nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]})");
  CHECK(of({node(own), node(other, {{"pool", "new"}})}, pod) == other);
  const Json grace = node(other, {{"nvidia.com/gpu.product", "NVIDIA-GH200-480GB"}});
  CHECK(of({node(own), grace}, kPod, {"*gh200*"}) == other);
  pod = kPod;
  pod["nodeSelector"] = {{"pool", "new"}};
  CHECK(of({node(own), node(other, {{"pool", "new"}})}, pod, {"other label"}) == other);
  // What the operator tolerates for every job does.
  CHECK(of({node(own, {}, taint("other", "")),
            node(other, {}, taint("petuum.com/nodegroup", "adaptdl"))}) == other);
  // None at all, as with nodes that come only when they are asked for: any may tell.
  pod["nodeSelector"] = {{"pool", "to come"}};
  CHECK(of({node(other)}, pod) == other);
  CHECK(of({node(other), node("x", {{"kubernetes.io/os", "windows"}})}) == other);
}

TEST_CASE("which of several foreign platforms is the user's choice") {
  const std::vector<Json> nodes = {node("riscv64"), node("s390x")};
  CHECK_THROWS_WITH_AS(of(nodes), doctest::Contains("riscv64, s390x"), UsageError);
  const NodePlatform found = node_platform(nodes, kPod, {}, oci::Platform{"linux", "s390x"});
  CHECK(found.platform == oci::Platform{"linux", "s390x"});
  CHECK(found.pins);
  CHECK_FALSE(node_platform({node("s390x")}, kPod, {}, oci::Platform{"linux", "s390x"}).pins);
}

}  // namespace adaptdl::client
