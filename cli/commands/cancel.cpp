#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/frame/cluster_flags.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"

namespace adaptdl::cli {
namespace {

int cancel_job(JobControl& control, const std::string& name, const Arguments& arguments) {
  if (arguments.flag("now")) {
    throw UsageError(fmt::format(
        "--now: only for runs; {} is a job, which ends within the grace time of its job file.",
        name));
  }
  const Json phase = control.cancel(name);
  if (arguments.json()) {
    print_json({{"name", name}, {"phase", phase}});
  } else {
    print_line(fmt::format("{}: ends, and does not continue", name));
  }
  return 0;
}

int cancel_run(const std::string& name, const Arguments& arguments) {
  const bool now = arguments.flag("now");
  const Json answer = launch::request(name, {{"request", "cancel"}, {"checkpoint", !now}});
  const bool checkpoint = answer.value("checkpoint", !now);  // an earlier version does not say it
  if (arguments.json()) {
    print_json({{"name", name}, {"checkpoint", checkpoint}});
  } else {
    print_line(fmt::format("{}: ends {}", name, checkpoint ? "after a checkpoint" : "now"));
  }
  return 0;
}

int run_cancel(const Arguments& arguments) {
  const ClusterJobs cluster = open_cluster(arguments);
  const std::string name = *arguments.positional("NAME");
  return cluster.query->is_run(name) ? cancel_run(name, arguments)
                                     : cancel_job(*cluster.control, name, arguments);
}

}  // namespace

Command cancel_command() {
  return {
      .name = "cancel",
      .summary = "End a job for good, or a live run after a checkpoint",
      .text = embedded("cancel.md"),
      .options =
          with_cluster({{.name = "now", .doc = "Run: end without a checkpoint."}, format_option()}),
      .positionals = {{.name = "NAME",
                       .kind = Kind::job_or_run,
                       .doc = "The job's or run's name."}},
      .examples = {{"adaptdl cancel digits", "End it; the same run command continues it later."}},
      .run = run_cancel};
}

}  // namespace adaptdl::cli
