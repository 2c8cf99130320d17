#include "cli/storage_class.h"

#include <regex>

namespace adaptdl::cli {
namespace {

const kube::Resource kStorageClasses{"storage.k8s.io", "v1", "storageclasses", "", "", ""};

}  // namespace

std::string storage_class(KubernetesCluster& cluster, const std::string& wanted) {
  if (!wanted.empty()) return wanted;
  static const std::regex shared(R"(microk8s\.io/hostpath|.*cephfs\.csi\.ceph\.com|.*\befs\b.*)");
  try {
    for (const Json& each : cluster.client().list(kStorageClasses).items) {
      if (std::regex_match(each.value("provisioner", ""), shared)) {
        return each["metadata"].value("name", "");
      }
    }
  } catch (const kube::ApiError& error) {
    if (!error.forbidden()) throw;
  }
  return "";
}

}  // namespace adaptdl::cli
