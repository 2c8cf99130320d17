#include "core/client/kubernetes/cluster_registry.h"

#include <optional>

#include "core/base/error.h"
#include "core/cluster/kubernetes/install/manifests.h"
#include "core/formats/json_fields.h"
#include "core/kube/informer.h"
#include "core/kube/port_forward.h"

namespace adaptdl::client {
namespace {

constexpr const char* kLabels = "app=docker-registry";
constexpr const char* kName = "adaptdl-registry";
constexpr const char* kPort = "registry";
constexpr const char* kPushPort = "push";  // of a container
constexpr const char* kRepository = "adaptdl-submit";

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

// The registries of all namespaces; only of our own if the user may not list all.
std::vector<Json> services(KubernetesConnection& cluster) {
  try {
    return cluster.client().list(kube::kServices, {.labels = kLabels}).items;
  } catch (const kube::ApiError& error) {
    if (!error.forbidden()) throw;
  }
  return cluster.client().list(kube::kServices.in(cluster.name_space()), {.labels = kLabels}).items;
}

Place find_place(KubernetesConnection& cluster, const std::string& otherwise) {
  const std::vector<Json> found = cluster.reach([&] { return services(cluster); });
  for (const Json& service : found) {
    if (const auto place = place_of(service)) return *place;
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
                              "permissions to list pods and to create pods/portforward in "
                              "namespace {}: {}",
                              cluster.name(), place.name_space, error.what()),
                  ExitCode::auth);
    }
  }
  for (const Json& pod : pods.items) {
    if (text_at_pointer(pod, "/status/phase") != "Running") continue;
    for (const Json& container : list_at(object_at(pod, "spec"), "containers")) {
      for (const Json& port : list_at(container, "ports")) {
        if (text_at(port, "name") != kPushPort) continue;
        return PushPlace{kube::metadata_text(pod, "name"),
                         port.value<uint16_t>("containerPort", 0)};
      }
    }
  }
  return std::nullopt;
}

oci::RegistryProxy forward_to(KubernetesConnection& cluster, const std::string& name_space,
                              const PushPlace& place) {
  const auto forward = std::make_shared<kube::PortForward>(
      cluster.client(), kube::kPods.in(name_space, place.pod), place.port);
  const std::string url = fmt::format("http://127.0.0.1:{}", forward->port());
  try {
    HttpClient().send({.url = url + "/v2/"});
  } catch (const HttpError& error) {
    fail(
        "cannot push to the registry of cluster {}: {}. Pod {} in namespace {} must be reachable: "
        "the user needs the permission to create pods/portforward there",
        cluster.name(), error.what(), place.pod, name_space);
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
