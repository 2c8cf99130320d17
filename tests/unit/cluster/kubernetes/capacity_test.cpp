#include "core/cluster/kubernetes/nodes/capacity.h"

#include <doctest/doctest.h>
#include <limits>

#include "core/cluster/kubernetes/trim.h"

using namespace adaptdl;
using namespace adaptdl::kubernetes;

namespace {

Resources request(const char* spec) {
  return pod_request(Json::parse(spec));
}

}  // namespace

TEST_CASE("a pod takes what the scheduler counts") {
  CHECK(request(R"({"containers": [
          {"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}},
          {"resources": {"requests": {"cpu": 1, "memory": "1Gi"}}}]})") ==
        Resources{{"cpu", 1500}, {"memory", int64_t{2} << 30}, {"pods", 1}});
  // A limit counts where there is no request.
  CHECK(request(R"({"containers": [{"resources": {"limits": {"nvidia.com/gpu": 2}}}]})") ==
        Resources{{"nvidia.com/gpu", 2}, {"pods", 1}});
  // Init containers run before, one after another; sidecars beside everything.
  CHECK(request(R"({"containers": [{"resources": {"requests": {"cpu": 1, "memory": "1Mi"}}}],
                    "initContainers": [
                      {"resources": {"requests": {"cpu": 3, "memory": "1Mi"}}},
                      {"restartPolicy": "Always",
                       "resources": {"requests": {"cpu": "500m", "memory": "1Mi"}}},
                      {"resources": {"requests": {"cpu": 1, "memory": "4Mi"}}}],
                    "overhead": {"cpu": "250m"}})") ==
        Resources{{"cpu", 3250}, {"memory", 5 << 20}, {"pods", 1}});
  CHECK(request("null") == Resources{{"pods", 1}});
  CHECK(request(R"({"containers": [{"resources": {"requests": {"cpu": "many"}}}]})")["cpu"] == 0);
}

TEST_CASE("what a pod says for itself as a whole counts for its containers") {
  CHECK(request(R"({"containers": [{"resources": {"requests": {"cpu": 1, "memory": "1Gi"},
                                                  "limits": {"nvidia.com/gpu": 2}}}],
                    "resources": {"requests": {"cpu": 8}, "limits": {"cpu": 9, "memory": "32Gi"}},
                    "overhead": {"cpu": "250m"}})") ==
        Resources{{"cpu", 8250}, {"memory", int64_t{1} << 30}, {"nvidia.com/gpu", 2}, {"pods", 1}});
  // A limit where nobody requests any.
  CHECK(request(R"({"containers": [{}], "resources": {"limits": {"memory": "32Gi"}}})") ==
        Resources{{"memory", int64_t{32} << 30}, {"pods", 1}});
  // And so it does in what is kept of a pod.
  Json pod = Json::parse(R"({"spec": {"nodeName": "n1", "containers": [{}], "volumes": [],
                                      "resources": {"requests": {"cpu": 8}}}})");
  trim_pod(pod);
  CHECK(pod_request(pod["spec"])["cpu"] == 8000);
  CHECK_FALSE(pod["spec"].contains("volumes"));
}

TEST_CASE("a node") {
  NodeFacts node = read_node(Json::parse(R"({
    "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "host-1",
                                          "nvidia.com/gpu.product": "NVIDIA-A100"}},
    "spec": {"taints": [{"key": "k", "effect": "NoSchedule"},
                        {"key": "soft", "effect": "PreferNoSchedule"}]},
    "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "4"},
               "conditions": [{"type": "Ready", "status": "True"}]}})"));
  CHECK(node.name == "n1");
  CHECK(node.hostname == "host-1");
  CHECK(node.accelerator == "NVIDIA-A100");
  CHECK(node.allocatable["cpu"] == 8000);
  CHECK(node.allocatable["nvidia.com/gpu"] == 4);
  CHECK(node.ready);
  CHECK_FALSE(node.leaving);
  CHECK(node.taints.size() == 1);
  CHECK_FALSE(read_node(Json()).ready);
}

TEST_CASE("requests that no node could meet do not wrap around") {
  const Json container = Json::parse(R"({"resources": {"requests": {"memory": "7E"}}})");
  const Json spec = {{"containers", {container, container}}, {"initContainers", {container}}};
  CHECK(pod_request(spec)["memory"] == std::numeric_limits<int64_t>::max());
}

TEST_CASE("which label names the kind of a node's accelerators") {
  const auto kind = [](const char* labels, const std::string& label = "") {
    return read_node({{"metadata", {{"name", "n1"}, {"labels", Json::parse(labels)}}}}, label)
        .accelerator;
  };
  CHECK(kind(R"({"nvidia.com/gpu.product": "A100", "accelerator": "fast"})") == "A100");
  CHECK(kind(R"({"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"})") == "nvidia-tesla-t4");
  CHECK(kind(R"({"accelerator": "fast"})") == "fast");
  CHECK(kind(R"({"lab.example/kind": "fast"})").empty());
  // The operator's own replaces them.
  const char* const both = R"({"nvidia.com/gpu.product": "A100", "lab.example/kind": "fast"})";
  CHECK(kind(both, "lab.example/kind") == "fast");
  CHECK(kind(both, "lab.example/other").empty());
}

TEST_CASE("the kind of the accelerators of some nodes") {
  std::map<std::string, NodeFacts> nodes;
  const auto kind = [&](const std::vector<std::string>& names) {
    return accelerator_of(names, nodes).value_or("nothing");
  };
  for (const char* name : {"a", "b", "c"}) nodes[name].name = name;
  CHECK(kind({"a"}) == "nothing");  // no node has one
  nodes["a"].accelerator = nodes["b"].accelerator = "T4";
  CHECK(kind({"a", "b", "a"}) == "T4");
  CHECK(kind({"c"}).empty());
  CHECK(kind({"a", "c"}) == "nothing");
  CHECK(kind({"a", "gone"}) == "nothing");
  CHECK(kind({}) == "nothing");
}

TEST_CASE("a node that is about to go") {
  const auto leaving = [](const char* spec) {
    return read_node({{"metadata", {{"name", "n"}}}, {"spec", Json::parse(spec)}}).leaving;
  };
  CHECK(leaving(R"({"unschedulable": true})"));
  CHECK(leaving(R"({"taints": [{"key": "ToBeDeletedByClusterAutoscaler",
                                "effect": "NoSchedule"}]})"));
  CHECK_FALSE(leaving(R"({"taints": [{"key": "other", "effect": "NoSchedule"}]})"));
}

TEST_CASE("taints are tolerated as Kubernetes does") {
  const Json taints = Json::parse(R"([{"key": "k", "value": "v", "effect": "NoSchedule"}])");
  const auto tolerated = [&](const char* toleration) {
    Json spec;
    spec["tolerations"] = Json::array({Json::parse(toleration)});
    return tolerates(spec, taints);
  };
  CHECK(tolerated(R"({"key": "k", "operator": "Equal", "value": "v"})"));
  CHECK(tolerated(R"({"key": "k", "operator": "Exists", "effect": "NoSchedule"})"));
  CHECK(tolerated(R"({"operator": "Exists"})"));
  CHECK_FALSE(tolerated(R"({"key": "k", "value": "w"})"));
  CHECK_FALSE(tolerated(R"({"key": "k", "operator": "Exists", "effect": "NoExecute"})"));
  CHECK_FALSE(tolerates(Json::object(), taints));
  CHECK(tolerates(Json::object(), Json::array()));
}
