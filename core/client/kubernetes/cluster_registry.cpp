#include "core/client/kubernetes/cluster_registry.h"

#include <optional>

#include "core/base/error.h"

namespace adaptdl::client {
namespace {

constexpr const char* kLabels = "app=docker-registry";
constexpr const char* kName = "adaptdl-registry";
constexpr const char* kPort = "registry";
constexpr const char* kRepository = "adaptdl-submit";

struct Place {
  std::string name_space;
  int node_port = 0;
};

// Where the registry is, if this Service is the registry's.
std::optional<Place> place_of(const Json& service) {
  if (service["metadata"].value("name", "") != kName) return std::nullopt;
  for (const Json& port : service["spec"].value("ports", Json::array())) {
    if (port.value("name", "") != kPort || port.value("nodePort", 0) == 0) continue;
    return Place{service["metadata"].value("namespace", ""), port["nodePort"].get<int>()};
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

}  // namespace

ClusterRegistry find_cluster_registry(KubernetesConnection& cluster, const std::string& otherwise) {
  const Place place = find_place(cluster, otherwise);
  kube::Client& client = cluster.client();
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
  ClusterRegistry result;
  result.where = {fmt::format("localhost:{}", place.node_port), kRepository, "", ""};
  result.proxy.url = client.config().server + path.substr(0, path.size() - 4);
  result.proxy.http = client.config().connection;
  result.proxy.http.certificate = identity.certificate;
  result.proxy.http.key = identity.key;
  // A token may expire while a large image is sent.
  result.proxy.headers = [&client] { return client.credentials().current().headers; };
  return result;
}

}  // namespace adaptdl::client
