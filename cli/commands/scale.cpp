#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/frame/cluster_flags.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "core/job/replica_range.h"
#include "core/launch/client.h"

namespace adaptdl::cli {
namespace {

int scale_job(JobControl& control, const std::string& name, const ReplicaRange& range,
              const Arguments& arguments) {
  control.scale(name, range.min, *range.max);
  if (arguments.json()) {
    print_json({{"name", name}, {"min", range.min}, {"max", *range.max}});
    return 0;
  }
  print_line(fmt::format("{}: {} to {} replicas", name, range.min, *range.max));
  if (!arguments.quiet()) {
    talk(fmt::format("The scheduler chooses among them; `adaptdl explain {}` says why.", name));
  }
  return 0;
}

int scale_run(const std::string& name, const ReplicaRange& range, const Arguments& arguments) {
  if (range.min != range.max) {
    throw UsageError("N: a range is only for jobs; give one number for a run of `adaptdl run`.");
  }
  const Json status = launch::request(name, {{"request", "status"}});
  const Json answer = launch::request(name, {{"request", "scale"}, {"replicas", *range.max}});
  if (arguments.json()) {
    print_json({{"name", name},
                {"from", answer.value("from", Json(nullptr))},
                {"to", answer.value("to", Json(nullptr))}});
    return 0;
  }
  print_line(fmt::format("{}: replicas {} -> {}", name,
                         dump_json(answer.value("from", Json(nullptr))), *range.max));
  if (arguments.quiet()) return 0;
  const bool command = !status.value("restartable", Json(nullptr)).is_null();
  const bool restarts = command && answer.value("from", Json(nullptr)) != Json(*range.max);
  talk(restarts ? "All its replicas are stopped, and start again from what they have saved; "
                  "`adaptdl ls` shows them."
                : "It keeps training; `adaptdl ls` shows the progress.");
  return 0;
}

int run_scale(const Arguments& arguments) {
  const std::string name = *arguments.positional("NAME");
  const ReplicaRange range = replica_range_argument(*arguments.positional("N"), "N");
  const ClusterJobs cluster = open_cluster(arguments);
  return cluster.query->is_run(name) ? scale_run(name, range, arguments)
                                     : scale_job(*cluster.control, name, range, arguments);
}

}  // namespace

Command scale_command() {
  return {
      .name = "scale",
      .summary = "Change the number of replicas of a job or a live run",
      .text = embedded("scale.md"),
      .options = with_cluster({format_option()}),
      .positionals =
          {{.name = "NAME", .kind = Kind::job_or_run, .doc = "The job's or run's name."},
           {.name = "N",
            .doc =
                "Number of replicas; for a job also MIN:MAX, from which the scheduler chooses."}},
      .examples = {{"adaptdl scale digits 3", "Continue with 3 replicas."},
                   {"adaptdl scale digits-x7k2p 1:4", "Let the scheduler choose."}},
      .run = run_scale};
}

}  // namespace adaptdl::cli
