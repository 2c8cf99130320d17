#include "cli/commands.h"
#include "cli/frame/parse.h"
#include "core/base/files.h"
#include "core/cluster/local/runner/launch_options.h"
#include "core/cluster/local/runner/run_job.h"

namespace adaptdl::cli {
namespace {

int run_runner(const Arguments& arguments) {
  return local::run_job_folder({absolute_path(*arguments.positional("FOLDER"))},
                               local::parse_slots(arguments.text("slots")));
}

}  // namespace

Command runner_command() {
  return {.name = "__runner",
          .summary = "Run the job in a folder, for the service",
          .options = {{.name = "slots",
                       .kind = Kind::text,
                       .value = "N,...",
                       .doc = "Numbers of the cores or GPUs that the job has.",
                       .variable = false}},
          .positionals = {{.name = "FOLDER", .kind = Kind::directory, .doc = "The job's folder."}},
          .hidden = true,
          .run = run_runner};
}

}  // namespace adaptdl::cli
