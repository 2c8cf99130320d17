#include "cli/cluster_choice.h"
#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/jobs.h"
#include "cli/output.h"
#include "cli/parse.h"

namespace adaptdl::cli {
namespace {

int ask(const char* request, const char* done, const Arguments& arguments) {
  require_local_cluster(arguments);
  const std::string name = *arguments.positional("JOB");
  find_job(local::open_store().get(), name);
  const Json answer = local::request_service({{"request", request}, {"name", name}});
  if (arguments.json()) {
    print_json({{"name", name}, {"phase", answer.value("phase", Json())}});
  } else {
    print_line(fmt::format("{}: {}", name, done));
  }
  return 0;
}

int suspend(const Arguments& arguments) {
  return ask("suspend", "is suspended, after a checkpoint", arguments);
}

int resume(const Arguments& arguments) {
  return ask("resume", "waits for replicas again", arguments);
}

}  // namespace

Command suspend_command() {
  return {.name = "suspend",
          .summary = "Take all replicas from a job until it is resumed",
          .text = embedded("cmd_suspend.md"),
          .options = {format_option(), cluster_option()},
          .positionals = {{.name = "JOB", .kind = Kind::job, .doc = "The job's name."}},
          .examples = {{"adaptdl suspend digits-x7k2p", "Make room for others."}},
          .run = suspend};
}

Command resume_command() {
  return {.name = "resume",
          .summary = "Let a suspended job go on",
          .text = embedded("cmd_resume.md"),
          .options = {format_option(), cluster_option()},
          .positionals = {{.name = "JOB", .kind = Kind::job, .doc = "The job's name."}},
          .examples = {{"adaptdl resume digits-x7k2p", "Let it have replicas again."}},
          .run = resume};
}

}  // namespace adaptdl::cli
