#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/job_logs.h"
#include "cli/output.h"
#include "cli/parse.h"

namespace adaptdl::cli {
namespace {

int run(const Arguments& arguments) {
  LogOptions options;
  options.name = *arguments.positional("NAME");
  options.follow = arguments.flag("follow");
  options.prefix = arguments.flag("prefix");
  if (arguments.given("replica")) options.replica = arguments.integer("replica");
  if (arguments.given("tail")) options.tail = arguments.integer("tail");
  if (arguments.given("since")) options.since = Seconds(arguments.seconds("since"));
  if (!show_logs(*open_cluster(arguments), options) && !arguments.quiet())
    talk("There are no logs yet.");
  return 0;
}

}  // namespace

Command logs_command() {
  return {.name = "logs",
          .summary = "Show what the replicas of a job or run print",
          .text = embedded("cmd_logs.md"),
          .options = with_cluster(
              {{.name = "follow", .letter = 'f', .doc = "Go on until the job or run ends."},
               {.name = "replica",
                .kind = Kind::integer,
                .value = "ID",
                .doc = "Only of that replica.",
                .min = 0},
               {.name = "tail",
                .kind = Kind::integer,
                .value = "N",
                .doc = "Only the last N lines of each replica. Default: all.",
                .min = 0},
               {.name = "since",
                .kind = Kind::text,
                .value = "DURATION",
                .doc = "Only what was printed within that time, such as 10m, to the second."},
               {.name = "prefix", .doc = "Begin each line with [NAME/ID]."}}),
          .positionals = {{.name = "NAME", .kind = Kind::job, .doc = "The job's or run's name."}},
          .examples = {{"adaptdl logs digits -f --tail 10", "Follow all replicas."}},
          .run = run};
}

}  // namespace adaptdl::cli
