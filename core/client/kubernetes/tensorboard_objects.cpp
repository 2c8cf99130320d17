#include "core/client/kubernetes/tensorboard_objects.h"

#include "core/base/error.h"
#include "core/client/kubernetes/manifest.h"
#include "core/cluster/kubernetes/jobs/pod_builder.h"

namespace adaptdl::client {
namespace {

Json labels_of(const std::string& name) {
  return {{kTensorboardLabel, name}};
}

Json metadata_of(const std::string& name) {
  return {{"name", tensorboard_object_name(name)}, {"labels", labels_of(name)}};
}

Json owned_metadata(const std::string& name, const Json& owner) {
  Json metadata = metadata_of(name);
  metadata["ownerReferences"] = Json::array({owner});
  return metadata;
}

}  // namespace

std::string tensorboard_object_name(const std::string& name) {
  return "adaptdl-tensorboard-" + name;
}

Json tensorboard_deployment(const std::string& name, const std::string& image, bool node_port) {
  Json probe = {{"httpGet", {{"path", "/"}, {"port", kTensorboardPort}}}};
  if (!node_port) {  // the kubelet cannot connect, either: whether anything listens there
    const std::string listener = fmt::format(" 0100007F:{:04X} ", kTensorboardPort);
    probe = {{"exec", {{"command", {"grep", "-q", listener, "/proc/net/tcp"}}}}};
  }
  // TensorBoard only reads what jobs wrote, and needs no privilege for that.
  const Json container = {
      {"name", "tensorboard"},
      {"image", image},
      {"command", {"tensorboard"}},
      {"args",
       {node_port ? "--bind_all" : "--host=127.0.0.1",
        fmt::format("--logdir={}", kTensorboardFolder)}},
      {"ports", {{{"containerPort", kTensorboardPort}}}},
      {"readinessProbe", std::move(probe)},
      {"securityContext",
       {{"allowPrivilegeEscalation", false}, {"capabilities", {{"drop", {"ALL"}}}}}},
      {"volumeMounts", {{{"name", "logdir"}, {"mountPath", kTensorboardFolder}}}}};
  Json pod = {{"automountServiceAccountToken", false},
              {"enableServiceLinks", false},
              {"securityContext",
               {{"runAsNonRoot", true},
                {"runAsUser", 65532},
                {"runAsGroup", 65532},
                {"seccompProfile", {{"type", "RuntimeDefault"}}}}},
              {"containers", Json::array({container})},
              {"volumes",
               {{{"name", "logdir"},
                 {"persistentVolumeClaim", {{"claimName", tensorboard_object_name(name)}}}}}}};
  kubernetes::add_toleration(pod);  // its volume may be on a node reserved for jobs
  return {{"apiVersion", "apps/v1"},
          {"kind", "Deployment"},
          {"metadata", metadata_of(name)},
          {"spec",
           {{"selector", {{"matchLabels", labels_of(name)}}},
            {"template", {{"metadata", {{"labels", labels_of(name)}}}, {"spec", pod}}}}}};
}

Json tensorboard_owner(const Json& deployment) {
  return {{"apiVersion", "apps/v1"},
          {"kind", "Deployment"},
          {"name", deployment["metadata"]["name"]},
          {"uid", deployment["metadata"]["uid"]}};
}

Json tensorboard_claim(const std::string& name, const Json& spec, const Json& owner) {
  return {{"apiVersion", "v1"},
          {"kind", "PersistentVolumeClaim"},
          {"metadata", owned_metadata(name, owner)},
          {"spec", spec}};
}

Json tensorboard_service(const std::string& name, const Json& owner) {
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata", owned_metadata(name, owner)},
          {"spec",
           {{"selector", labels_of(name)},
            {"type", "NodePort"},
            {"ports", {{{"port", kTensorboardPort}, {"targetPort", kTensorboardPort}}}}}}};
}

std::string why_not_ready(const Json& pod) {
  if (!pod.contains("status")) return "its pod is new";
  const Json& status = pod["status"];
  for (const Json& condition : status.value("conditions", Json::array())) {
    const std::string type = condition.value("type", "");
    if (type == "Ready" && condition.value("status", "") == "True") return "";
    if (type == "PodScheduled" && condition.value("status", "") == "False") {
      return condition.value("message", "its pod has no node");
    }
  }
  for (const Json& container : status.value("containerStatuses", Json::array())) {
    const Json state = container.value("state", Json::object());
    for (const char* kind : {"waiting", "terminated"}) {
      if (!state.contains(kind)) continue;
      const std::string reason = state[kind].value("reason", ""),
                        message = state[kind].value("message", "");
      return reason + (message.empty() ? "" : ": " + message);
    }
  }
  return "it does not answer yet";
}

}  // namespace adaptdl::client
