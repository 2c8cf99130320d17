#include "core/client/kubernetes/cluster_registry.h"

#include <fmt/ranges.h>
#include <optional>

#include "core/base/error.h"
#include "core/cluster/kubernetes/install/manifests.h"
#include "core/cluster/kubernetes/jobs/pod_object.h"
#include "core/formats/json_fields.h"
#include "core/kube/channels.h"
#include "core/kube/informer.h"
#include "core/kube/port_forward.h"

namespace adaptdl::client {
namespace {

constexpr const char* kLabels = "app=docker-registry";
constexpr const char* kName = "adaptdl-registry";
constexpr const char* kPort = "registry";
constexpr const char* kPushPort = "push";  // of a container
constexpr const char* kRepository = "adaptdl-submit";
constexpr const char* kUsualNamespace = "adaptdl";  // of the operator
const kube::Resource kOperatorBinding{
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "", "adaptdl", ""};

struct Place {
  std::string name_space;
  int node_port = 0;
  bool ours = false;  // `adaptdl install` made it, not AdaptDL's chart
};

// Where the registry is, if this Service is the registry's.
std::optional<Place> place_of(const Json& service) {
  if (service["metadata"].value("name", "") != kName) return std::nullopt;
  for (const Json& port : service["spec"].value("ports", Json::array())) {
    if (port.value("name", "") != kPort || port.value("nodePort", 0) == 0) continue;
    return Place{
        service["metadata"].value("namespace", ""), port["nodePort"].get<int>(),
        object_at(object_at(service, "metadata"), "labels").contains(kubernetes::kLabelInstalled)};
  }
  return std::nullopt;
}

// The operator's namespace as its ClusterRoleBinding names it, which users cannot change, unlike
// what is in their namespaces; the usual one if the user may not see that.
std::string operator_namespace(kube::Client& client) {
  try {
    const auto binding = client.find(kOperatorBinding);
    const std::string found = binding ? text_at_pointer(*binding, "/subjects/0/namespace") : "";
    if (!found.empty()) return found;
  } catch (const kube::ApiError& error) {
    if (!error.forbidden()) throw;
  }
  return kUsualNamespace;
}

struct Registries {
  std::vector<Place> places;
  std::vector<std::string> refused;  // where the user may not list Services
};

// The registries of all namespaces. If the user may not list all: the operator's, else that of the
// job's namespace.
Registries find_registries(KubernetesConnection& cluster) {
  kube::Client& client = cluster.client();
  Registries found;
  const auto look = [&](const std::string& name_space) {
    try {
      const kube::Resource services = kube::kServices.in(name_space);
      for (const Json& service : client.list(services, {.labels = kLabels}).items) {
        if (auto place = place_of(service)) found.places.push_back(std::move(*place));
      }
    } catch (const kube::ApiError& error) {
      if (!error.forbidden()) throw;
      found.refused.push_back(name_space.empty() ? "all namespaces" : "namespace " + name_space);
    }
  };
  look("");
  if (found.refused.empty()) return found;
  const std::string operators = operator_namespace(client);
  look(operators);
  if (found.places.empty() && cluster.name_space() != operators) look(cluster.name_space());
  return found;
}

// Anybody who may create Services can make one that looks like the cluster's registry.
Place the_operators(KubernetesConnection& cluster, const std::vector<Place>& places,
                    const std::string& otherwise) {
  const std::string operators = cluster.reach([&] { return operator_namespace(cluster.client()); });
  std::vector<std::string> spaces;
  for (const Place& place : places) {
    if (place.name_space == operators) return place;
    spaces.push_back(place.name_space);
  }
  fail(
      "cluster {} has several Services {}, in the namespaces {}, and none in {}, where its "
      "operator should be; remove those that are not the cluster's registry, or allow the user to "
      "get the ClusterRoleBinding {}, which names the operator's namespace. Otherwise {}",
      cluster.name(), kName, fmt::join(spaces, ", "), operators, kOperatorBinding.name, otherwise);
}

Place find_place(KubernetesConnection& cluster, const std::string& otherwise) {
  const Registries found = cluster.reach([&] { return find_registries(cluster); });
  if (found.places.size() == 1) return found.places.front();
  if (!found.places.empty()) return the_operators(cluster, found.places, otherwise);
  if (!found.refused.empty()) {
    throw Error(
        fmt::format("cluster {} has no registry of its own that the user may see: the permission "
                    "to list Services, needed in the operator's namespace, is missing in {}. "
                    "Otherwise {}",
                    cluster.name(), fmt::join(found.refused, ", "), otherwise),
        ExitCode::auth);
  }
  fail(
      "cluster {} has no registry of its own (no Service {} with the label {} and a node port "
      "named {}): {}",
      cluster.name(), kName, kLabels, kPort, otherwise);
}

struct PushPlace {
  std::string pod;
  uint16_t port = 0;
};

// Where the registry can be written to; nothing if that is its Service.
std::optional<PushPlace> push_place(KubernetesConnection& cluster, const Place& place) {
  kube::ObjectList pods;
  try {
    pods = cluster.client().list(kube::kPods.in(place.name_space), {.labels = kLabels});
  } catch (const kube::ApiError& error) {
    if (!error.forbidden()) throw;
    if (place.ours) {
      throw Error(fmt::format("cannot push to the registry of cluster {}: the user needs the "
                              "permissions to list pods and to get and create pods/portforward "
                              "in namespace {}: {}",
                              cluster.name(), place.name_space, error.what()),
                  ExitCode::auth);
    }
  }
  // The pods of a lost node stay Running, but are not ready, and are deleted some minutes later.
  std::optional<PushPlace> unready;
  for (const Json& pod : pods.items) {
    const kubernetes::PodFacts facts = kubernetes::read_pod(pod);
    if (facts.deleting || text_at_pointer(pod, "/status/phase") != "Running") continue;
    for (const Json& container : list_at(object_at(pod, "spec"), "containers")) {
      for (const Json& port : list_at(container, "ports")) {
        if (text_at(port, "name") != kPushPort) continue;
        const PushPlace found{facts.name, port.value<uint16_t>("containerPort", 0)};
        if (facts.ready) return found;
        if (!unready) unready = found;
      }
    }
  }
  return unready;
}

// Why a port of the pod cannot be forwarded, after forwarding has failed: that logs it only.
[[noreturn]] void tell_why_not_forwarded(KubernetesConnection& cluster, const kube::Resource& pod,
                                         uint16_t port, std::string why) {
  const std::string what = fmt::format("cannot push to the registry of cluster {}", cluster.name());
  try {
    kube::open_channels(cluster.client(), pod.in(pod.name_space, pod.name, "portforward"),
                        {{"ports", fmt::format("{}", port)}}, {"v4.channel.k8s.io"});
  } catch (const kube::ApiError& error) {
    if (error.forbidden()) {
      throw Error(fmt::format("{}: the user needs the permission to get and create "
                              "pods/portforward in namespace {}: {}",
                              what, pod.name_space, error.what()),
                  ExitCode::auth);
    }
    why = error.what();
  } catch (const HttpError& error) {
    why = error.what();
  }
  fail("{}: port {} of {} does not answer: {}", what, port, pod.describe(), why);
}

oci::RegistryProxy forward_to(KubernetesConnection& cluster, const std::string& name_space,
                              const PushPlace& place) {
  const kube::Resource pod = kube::kPods.in(name_space, place.pod);
  const auto forward = std::make_shared<kube::PortForward>(cluster.client(), pod, place.port);
  const std::string url = fmt::format("http://127.0.0.1:{}", forward->port());
  try {
    HttpClient().send({.url = url + "/v2/"});
  } catch (const HttpError& error) {
    tell_why_not_forwarded(cluster, pod, place.port, error.what());
  }
  // The headers, of which there are none, keep the port open as long as a copy of the proxy is.
  return {.url = url, .headers = [forward] { return HttpHeaders{}; }, .http = {}};
}

}  // namespace

ClusterRegistry find_cluster_registry(KubernetesConnection& cluster, const std::string& otherwise) {
  const Place place = find_place(cluster, otherwise);
  kube::Client& client = cluster.client();
  ClusterRegistry result;
  result.where = {fmt::format("localhost:{}", place.node_port), kRepository, "", ""};
  if (const auto push = cluster.reach([&] { return push_place(cluster, place); })) {
    result.proxy = forward_to(cluster, place.name_space, *push);
    return result;
  }
  const std::string path = kube::service_proxy_path(place.name_space, kName, kPort, "/v2/");
  const HttpResponse answer = cluster.reach([&] { return client.pass({.url = path}); });
  if (!answer.ok()) {
    const kube::Status status = kube::status_of(answer);
    const std::string why = answer.status == 401
                                ? "it wants credentials, which cannot pass the API server"
                                : fmt::format("{} (status {})", status.message, answer.status);
    throw Error(fmt::format("cannot use the registry of cluster {} (Service {} in namespace {}): "
                            "{}. Otherwise {}",
                            cluster.name(), kName, place.name_space, why, otherwise),
                answer.status == 401 || answer.status == 403 ? ExitCode::auth : ExitCode::error);
  }
  const kube::Identity identity = client.credentials().current();
  result.proxy.url = client.config().server + path.substr(0, path.size() - 4);
  result.proxy.http = client.config().connection;
  result.proxy.http.certificate = identity.certificate;
  result.proxy.http.key = identity.key;
  // A token may expire while a large image is sent.
  result.proxy.headers = [&client] { return client.credentials().current().headers; };
  return result;
}

}  // namespace adaptdl::client
