#include "core/client/open_cluster.h"

#include "core/base/error.h"
#include "core/client/kubernetes/control.h"
#include "core/client/kubernetes/query.h"
#include "core/client/kubernetes/transfer.h"
#include "core/client/local/control.h"
#include "core/client/local/query.h"
#include "core/client/local/transfer.h"

namespace adaptdl::client {

ClusterJobs open_cluster(const ClusterChoice& choice, bool verbose, const JobScope& scope,
                         const Cancellation* cancel) {
  if (!choice.local()) {
    const auto cluster = std::make_shared<KubernetesConnection>(choice, verbose, cancel);
    return {kubernetes_query(cluster, scope), kubernetes_control(cluster),
            kubernetes_transfer(cluster)};
  }
  if (scope.all_namespaces) {
    throw UsageError("--all-namespaces: jobs on this machine have no namespaces.");
  }
  if (!scope.selector.empty()) {
    throw UsageError("--selector: jobs on this machine have no labels.");
  }
  return {local_query(), local_control(), local_transfer()};
}

}  // namespace adaptdl::client
