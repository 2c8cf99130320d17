#include "cli/cluster_jobs.h"
#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/parse.h"
#include "core/base/error.h"
#include "core/launch/run.h"

namespace adaptdl::cli {
namespace {

int run(const Arguments& arguments) {
  ExecRequest request;
  request.job = *arguments.positional("JOB");
  request.words = arguments.rest();
  if (request.words.empty()) throw UsageError("COMMAND is missing: what to run, behind --.");
  if (arguments.given("replica")) request.replica = arguments.integer("replica");
  return open_cluster(arguments)->exec(request);
}

}  // namespace

Command exec_command() {
  return {.name = "exec",
          .summary = "Run a command where a job runs",
          .text = embedded("cmd_exec.md"),
          .options = with_cluster({{.name = "replica",
                                    .kind = Kind::integer,
                                    .value = "N",
                                    .doc = "Of a job on Kubernetes: in the pod of that replica. "
                                           "Default: the first that runs.",
                                    .min = 0,
                                    .max = launch::kMaxReplicas - 1}}),
          .positionals = {{.name = "JOB", .kind = Kind::job, .doc = "The job's name."}},
          .examples = {{"adaptdl exec digits-x7k2p -- ls -l", "Look at its files."},
                       {"adaptdl exec digits-x7k2p -- bash", "Look around."}},
          .arguments_after_dashes = true,
          .run = run};
}

}  // namespace adaptdl::cli
