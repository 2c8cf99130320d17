#include "cli/frame/cluster_flags.h"

#include "cli/frame/invocation.h"

namespace adaptdl::cli {

client::ClusterFlags cluster_flags(const Arguments& arguments) {
  return {.cluster = arguments.text("cluster"),
          .context = arguments.text("context"),
          .kubeconfig = arguments.text("kubeconfig"),
          .name_space = arguments.text("namespace"),
          .kubectl = is_kubectl_plugin()};
}

client::ClusterChoice chosen_cluster(const Arguments& arguments) {
  return client::chosen_cluster(cluster_flags(arguments));
}

client::ClusterJobs open_cluster(const Arguments& arguments, const Cancellation* cancel) {
  return client::open_cluster(chosen_cluster(arguments), arguments.verbose(),
                              {arguments.flag("all-namespaces"), arguments.text("selector")},
                              cancel);
}

}  // namespace adaptdl::cli
