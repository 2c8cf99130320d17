#include "cli/commands.h"
#include "cli/commands/job_logs.h"
#include "cli/embedded.h"
#include "cli/frame/cluster_flags.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"

namespace adaptdl::cli {
namespace {

int run_logs(const Arguments& arguments) {
  LogOptions options;
  options.name = *arguments.positional("NAME");
  options.follow = arguments.flag("follow");
  options.prefix = arguments.flag("prefix");
  if (arguments.given("replica")) options.replica = arguments.integer("replica");
  if (arguments.given("tail")) options.tail = arguments.integer("tail");
  if (arguments.given("since")) options.since = Seconds(arguments.seconds("since"));
  if (!show_logs(*open_cluster(arguments).query, options) && !arguments.quiet())
    talk("There are no logs yet.");
  return 0;
}

}  // namespace

Command logs_command() {
  return {
      .name = "logs",
      .summary = "Show the output of a job's or run's replicas",
      .text = embedded("logs.md"),
      .options = with_cluster(
          {{.name = "follow", .letter = 'f', .doc = "Continue until the job or run ends."},
           {.name = "replica",
            .kind = Kind::integer,
            .value = "ID",
            .doc = "Show only this replica.",
            .min = 0},
           {.name = "tail",
            .kind = Kind::integer,
            .value = "N",
            .doc = "Show only the last N lines of each replica. Default: all.",
            .min = 0},
           {.name = "since",
            .kind = Kind::text,
            .value = "DURATION",
            .doc = "Show only the output of this last time, such as 10m; precise to the second."},
           {.name = "prefix", .doc = "Start each line with [NAME/ID]."}}),
      .positionals = {{.name = "NAME",
                       .kind = Kind::job_or_run,
                       .doc = "The job's or run's name."}},
      .examples = {{"adaptdl logs digits -f --tail 10", "Follow all replicas."}},
      .run = run_logs};
}

}  // namespace adaptdl::cli
