#include "cli/cluster_jobs.h"

#include "cli/cluster_choice.h"
#include "cli/kubernetes_jobs.h"
#include "cli/local_jobs.h"
#include "cli/parse.h"
#include "core/base/error.h"

namespace adaptdl::cli {

std::unique_ptr<ClusterJobs> open_cluster(const Arguments& arguments) {
  const ClusterChoice choice = chosen_cluster(arguments);
  const JobScope scope{arguments.flag("all-namespaces"), arguments.text("selector")};
  if (!choice.local()) return open_kubernetes_jobs(choice, arguments.verbose(), scope);
  for (const char* flag : {"all-namespaces", "selector"}) {
    if (arguments.given(flag)) {
      throw UsageError(
          fmt::format("--{}: jobs of this machine have no namespaces and labels.", flag));
    }
  }
  return open_local_jobs();
}

std::unique_ptr<ClusterJobs> open_cluster(const ClusterChoice& choice, bool verbose) {
  return choice.local() ? open_local_jobs() : open_kubernetes_jobs(choice, verbose);
}

}  // namespace adaptdl::cli
