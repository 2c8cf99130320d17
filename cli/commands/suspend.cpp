#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/frame/cluster_flags.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"

namespace adaptdl::cli {
namespace {

int ask(bool suspended, const char* done, const Arguments& arguments) {
  const ClusterJobs cluster = open_cluster(arguments);
  const std::string name = cluster.query->find(*arguments.positional("JOB")).name;
  const Json phase = cluster.control->suspend(name, suspended);
  if (arguments.json()) {
    print_json({{"name", name}, {"phase", phase}});
  } else {
    print_line(fmt::format("{}: {}", name, done));
  }
  return 0;
}

int suspend(const Arguments& arguments) {
  return ask(true, "suspended, after a checkpoint", arguments);
}

int resume(const Arguments& arguments) {
  return ask(false, "resumed, waiting for replicas", arguments);
}

}  // namespace

Command suspend_command() {
  return {.name = "suspend",
          .summary = "Stop a job until it is resumed",
          .text = embedded("suspend.md"),
          .options = with_cluster({format_option()}),
          .positionals = {{.name = "JOB", .kind = Kind::job, .doc = "The job's name."}},
          .examples = {{"adaptdl suspend digits-x7k2p", "Free its slots for other jobs."}},
          .run = suspend};
}

Command resume_command() {
  return {
      .name = "resume",
      .summary = "Resume a suspended job",
      .text = embedded("resume.md"),
      .options = with_cluster({format_option()}),
      .positionals = {{.name = "JOB", .kind = Kind::job, .doc = "The job's name."}},
      .examples = {{"adaptdl resume digits-x7k2p", "Let the scheduler give it replicas again."}},
      .run = resume};
}

}  // namespace adaptdl::cli
