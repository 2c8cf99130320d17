#include "cli/cluster_jobs.h"

#include "cli/cluster_choice.h"
#include "cli/kubernetes_jobs.h"
#include "cli/local_jobs.h"

namespace adaptdl::cli {

std::unique_ptr<ClusterJobs> open_cluster(const Arguments& arguments) {
  return open_cluster(chosen_cluster(arguments), arguments.verbose());
}

std::unique_ptr<ClusterJobs> open_cluster(const ClusterChoice& choice, bool verbose) {
  return choice.local() ? open_local_jobs() : open_kubernetes_jobs(choice, verbose);
}

}  // namespace adaptdl::cli
