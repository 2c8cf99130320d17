#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/frame/cluster_flags.h"
#include "cli/frame/parse.h"
#include "core/base/error.h"
#include "core/launch/run/run.h"

namespace adaptdl::cli {
namespace {

int run_exec(const Arguments& arguments) {
  ExecRequest request;
  request.job = *arguments.positional("JOB");
  request.words = arguments.rest();
  if (request.words.empty())
    throw UsageError("COMMAND is missing: give the command to run after --.");
  if (arguments.given("replica")) request.replica = arguments.integer("replica");
  return open_cluster(arguments).transfer->exec(request);
}

}  // namespace

Command exec_command() {
  return {
      .name = "exec",
      .summary = "Run a command in a job's environment",
      .text = embedded("exec.md"),
      .options = with_cluster(
          {{.name = "replica",
            .kind = Kind::integer,
            .value = "N",
            .doc = "Kubernetes: run in the pod of this replica. Default: the first running one.",
            .min = 0,
            .max = launch::kMaxReplicas - 1}}),
      .positionals = {{.name = "JOB", .kind = Kind::job, .doc = "The job's name."}},
      .examples = {{"adaptdl exec digits-x7k2p -- ls -l", "List its files."},
                   {"adaptdl exec digits-x7k2p -- bash", "Open a shell."}},
      .arguments_after_dashes = true,
      .run = run_exec};
}

}  // namespace adaptdl::cli
