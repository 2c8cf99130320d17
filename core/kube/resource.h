#pragma once

// The object and the parameters of a request. Pure.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace adaptdl::kube {

// A collection, an object in it, or a part of that object.
struct Resource {
  std::string group;        // "" is the core group
  std::string version;      // "v1"
  std::string plural;       // "pods"
  std::string name_space;   // "": of no namespace, or of all
  std::string name;         // "": the collection
  std::string subresource;  // "status", "log"

  // The same kind elsewhere: pods.in("default", "a", "log").
  Resource in(std::string_view space, std::string_view object = "",
              std::string_view part = "") const {
    return {group, version, plural, std::string(space), std::string(object), std::string(part)};
  }
  // Of a kind that has no namespace: nodes.named("n1").
  Resource named(std::string_view object, std::string_view part = "") const {
    return in("", object, part);
  }
  // The path of its URL, "/api/v1/namespaces/default/pods/a/log".
  std::string path() const;
  // For messages: "pods/a/log in default".
  std::string describe() const;
};

inline const Resource kPods{"", "v1", "pods", "", "", ""};
inline const Resource kNodes{"", "v1", "nodes", "", "", ""};
inline const Resource kClaims{"", "v1", "persistentvolumeclaims", "", "", ""};
inline const Resource kStorageClasses{"storage.k8s.io", "v1", "storageclasses", "", "", ""};
inline const Resource kDeployments{"apps", "v1", "deployments", "", "", ""};
inline const Resource kServices{"", "v1", "services", "", "", ""};
inline const Resource kSecrets{"", "v1", "secrets", "", "", ""};
inline const Resource kConfigMaps{"", "v1", "configmaps", "", "", ""};
inline const Resource kNamespaces{"", "v1", "namespaces", "", "", ""};
inline const Resource kLeases{"coordination.k8s.io", "v1", "leases", "", "", ""};
inline const Resource kNetworkPolicies{"networking.k8s.io", "v1", "networkpolicies", "", "", ""};
inline const Resource kEvents{"events.k8s.io", "v1", "events", "", "", ""};

// Every byte but letters, digits and -._~ as %XX.
std::string percent_encoded(std::string_view text);

// NAME=VALUE pairs in order; names may repeat.
using Query = std::vector<std::pair<std::string, std::string>>;
// "?a=b&c=d", "" for none.
std::string query_text(const Query& query);

// The path of the API server's proxy to a service's port (a name or a number). Without `rest` it
// ends in "/".
std::string service_proxy_path(std::string_view name_space, std::string_view service,
                               std::string_view port, std::string_view rest = "/");

}  // namespace adaptdl::kube
