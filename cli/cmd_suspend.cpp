#include "cli/cluster_jobs.h"
#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/output.h"
#include "cli/parse.h"

namespace adaptdl::cli {
namespace {

int ask(bool suspended, const char* done, const Arguments& arguments) {
  const auto cluster = open_cluster(arguments);
  const std::string name = cluster->find(*arguments.positional("JOB")).name;
  const Json phase = cluster->suspend(name, suspended);
  if (arguments.json()) {
    print_json({{"name", name}, {"phase", phase}});
  } else {
    print_line(fmt::format("{}: {}", name, done));
  }
  return 0;
}

int suspend(const Arguments& arguments) {
  return ask(true, "is suspended, after a checkpoint", arguments);
}

int resume(const Arguments& arguments) {
  return ask(false, "waits for replicas again", arguments);
}

}  // namespace

Command suspend_command() {
  return {.name = "suspend",
          .summary = "Take all replicas from a job until it is resumed",
          .text = embedded("cmd_suspend.md"),
          .options = with_cluster({format_option()}),
          .positionals = {{.name = "JOB", .kind = Kind::job, .doc = "The job's name."}},
          .examples = {{"adaptdl suspend digits-x7k2p", "Make room for others."}},
          .run = suspend};
}

Command resume_command() {
  return {.name = "resume",
          .summary = "Let a suspended job go on",
          .text = embedded("cmd_resume.md"),
          .options = with_cluster({format_option()}),
          .positionals = {{.name = "JOB", .kind = Kind::job, .doc = "The job's name."}},
          .examples = {{"adaptdl resume digits-x7k2p", "Let it have replicas again."}},
          .run = resume};
}

}  // namespace adaptdl::cli
