#include "cli/cluster_jobs.h"
#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/replica_range.h"
#include "core/launch/run.h"

namespace adaptdl::cli {
namespace {

int scale_job(ClusterJobs& cluster, const std::string& name, const ReplicaRange& range,
              const Arguments& arguments) {
  cluster.scale(name, range.min, range.max);
  if (arguments.json()) {
    print_json({{"name", name}, {"min", range.min}, {"max", range.max}});
    return 0;
  }
  print_line(fmt::format("{}: {} to {} replicas", name, range.min, range.max));
  if (!arguments.quiet()) {
    talk(fmt::format("The scheduler chooses among them; `adaptdl explain {}` says why.", name));
  }
  return 0;
}

int scale_run(const std::string& name, const ReplicaRange& range, const Arguments& arguments) {
  if (range.min != range.max) {
    throw UsageError("N: nobody would choose for a run of `adaptdl run`; give one number.");
  }
  const Json answer = launch::request(name, {{"request", "scale"}, {"replicas", range.max}});
  if (arguments.json()) {
    print_json({{"name", name},
                {"from", answer.value("from", Json(nullptr))},
                {"to", answer.value("to", Json(nullptr))}});
    return 0;
  }
  print_line(fmt::format("{}: replicas {} -> {}", name,
                         dump_json(answer.value("from", Json(nullptr))), range.max));
  if (!arguments.quiet()) talk("It keeps training meanwhile; `adaptdl ls` shows how far it is.");
  return 0;
}

int run(const Arguments& arguments) {
  const std::string name = *arguments.positional("NAME");
  const ReplicaRange range =
      parse_replica_range(*arguments.positional("N"), "N", launch::kMaxReplicas);
  const auto cluster = open_cluster(arguments);
  return cluster->is_run(name) ? scale_run(name, range, arguments)
                               : scale_job(*cluster, name, range, arguments);
}

}  // namespace

Command scale_command() {
  return {.name = "scale",
          .summary = "Change the number of replicas of a job or a live run",
          .text = embedded("cmd_scale.md"),
          .options = with_cluster({format_option()}),
          .positionals = {{.name = "NAME", .kind = Kind::job, .doc = "The job's or run's name."},
                          {.name = "N",
                           .doc = "How many replicas it shall have; for a job also MIN:MAX, among "
                                  "which the scheduler chooses."}},
          .examples = {{"adaptdl scale digits 3", "Go on with 3 replicas."},
                       {"adaptdl scale digits-x7k2p 1:4", "Let the scheduler choose."}},
          .run = run};
}

}  // namespace adaptdl::cli
