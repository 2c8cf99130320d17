#include "cli/commands.h"
#include "cli/commands/installing.h"
#include "cli/embedded.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "core/cluster/kubernetes/install/installation.h"

namespace adaptdl::cli {
namespace {

// The number of jobs, which must be 0 unless they are kept.
size_t check_jobs(kube::Client& client, bool keep) {
  const size_t jobs = kubernetes::count_jobs(client);
  if (jobs > 0 && !keep) {
    fail(
        "the cluster has {} AdaptDLJob{}, which would be removed with their data: delete them "
        "first, or give --keep-jobs, which keeps them and their definition",
        jobs, jobs == 1 ? "" : "s");
  }
  return jobs;
}

int run_uninstall(const Arguments& arguments) {
  kube::Client client = installer_client(arguments);
  const auto name_space = kubernetes::remains_in(client);
  if (!name_space) {
    kubernetes::installed_in(client);  // throws if the installation is another tool's
    talk("AdaptDL is not installed in this cluster");
    return 0;
  }
  const bool keep = arguments.flag("keep-jobs");
  check_jobs(client, keep);
  if (asks(arguments) && !agreed(fmt::format("Remove AdaptDL from {} (namespace {})?",
                                             client.config().source, *name_space))) {
    talk("nothing was changed");
    return 1;
  }
  const size_t jobs = check_jobs(client, keep);  // the answer may have taken long
  kubernetes::remove_installation(client, *name_space, keep, Seconds(timeout_option(arguments)),
                                  [&](const std::string& what) {
                                    if (!arguments.quiet()) talk(what);
                                  });
  if (!arguments.quiet()) {
    talk(keep && jobs > 0 ? "uninstalled; jobs stay as they are until the next `adaptdl install`"
                          : "uninstalled");
  }
  return 0;
}

}  // namespace

Command uninstall_command() {
  return {.name = "uninstall",
          .summary = "Remove the operator from a Kubernetes cluster",
          .text = embedded("uninstall.md"),
          .options = {{.name = "keep-jobs",
                       .doc = "Keep jobs, their custom resource definition, and all their data."},
                      context_option(),
                      kubeconfig_option(),
                      yes_option(),
                      {.name = "timeout",
                       .kind = Kind::text,
                       .value = "DURATION",
                       .fallback = "5m",
                       .doc = "Time to wait until everything is removed."}},
          .examples = {{"adaptdl uninstall --keep-jobs", "To install another version later."}},
          .run = run_uninstall};
}

}  // namespace adaptdl::cli
