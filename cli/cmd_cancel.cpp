#include "cli/cluster_jobs.h"
#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/output.h"
#include "cli/parse.h"

namespace adaptdl::cli {
namespace {

int cancel_job(ClusterJobs& cluster, const std::string& name, const Arguments& arguments) {
  if (arguments.flag("now")) {
    throw UsageError(fmt::format(
        "--now: {} is a job, not a run; a job has the grace time of its job file to end.", name));
  }
  const Json phase = cluster.cancel(name);
  if (arguments.json()) {
    print_json({{"name", name}, {"phase", phase}});
  } else {
    print_line(fmt::format("{}: ends, and does not go on", name));
  }
  return 0;
}

int cancel_run(const std::string& name, const Arguments& arguments) {
  const bool now = arguments.flag("now");
  launch::request(name, {{"request", "cancel"}, {"checkpoint", !now}});
  if (arguments.json()) {
    print_json({{"name", name}, {"checkpoint", !now}});
  } else {
    print_line(fmt::format("{}: ends {}", name, now ? "now" : "after a checkpoint"));
  }
  return 0;
}

int run(const Arguments& arguments) {
  const auto cluster = open_cluster(arguments);
  const std::string name = *arguments.positional("NAME");
  return cluster->is_run(name) ? cancel_run(name, arguments)
                               : cancel_job(*cluster, name, arguments);
}

}  // namespace

Command cancel_command() {
  return {.name = "cancel",
          .summary = "End a job for good, or a live run after a checkpoint",
          .text = embedded("cmd_cancel.md"),
          .options = with_cluster(
              {{.name = "now", .doc = "A run: without a checkpoint."}, format_option()}),
          .positionals = {{.name = "NAME", .kind = Kind::job, .doc = "The job's or run's name."}},
          .examples = {{"adaptdl cancel digits", "End it; the same run command goes on later."}},
          .run = run};
}

}  // namespace adaptdl::cli
