#include "core/client/kubernetes/shared_claim.h"

#include <regex>

namespace adaptdl::client {
namespace {

// As in AdaptDL: the first storage class that is known to be shared among nodes; "" (the cluster's
// default) if there is none.
std::string shared_class(KubernetesConnection& cluster) {
  static const std::regex shared(R"(microk8s\.io/hostpath|.*cephfs\.csi\.ceph\.com|.*\befs\b.*)");
  try {
    for (const Json& each : cluster.client().list(kube::kStorageClasses).items) {
      if (std::regex_match(each.value("provisioner", ""), shared)) {
        return each["metadata"].value("name", "");
      }
    }
  } catch (const kube::ApiError& error) {
    if (!error.forbidden()) throw;
  }
  return "";
}

}  // namespace

Json shared_claim_spec(KubernetesConnection& cluster, const std::string& size,
                       const std::string& wanted_class) {
  Json spec = {{"accessModes", {"ReadWriteMany"}},
               {"volumeMode", "Filesystem"},
               {"resources", {{"requests", {{"storage", size}}}}}};
  const std::string name = wanted_class.empty() ? shared_class(cluster) : wanted_class;
  if (!name.empty()) spec["storageClassName"] = name;
  return spec;
}

}  // namespace adaptdl::client
