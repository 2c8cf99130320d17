#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/job_wait.h"
#include "cli/output.h"
#include "cli/parse.h"

namespace adaptdl::cli {
namespace {

int run(const Arguments& arguments) {
  const auto cluster = open_cluster(arguments);
  std::optional<Seconds> timeout;
  if (arguments.given("timeout")) timeout = Seconds(arguments.seconds("timeout"));
  const WaitResult result =
      wait_for_jobs(*cluster, arguments.rest(), wait_goal(arguments.text("for")), timeout, [] {});
  if (result.code != ExitCode::ok) {
    throw Error(result.sentence, result.code);
  }
  if (!arguments.quiet()) talk(result.sentence);
  return 0;
}

}  // namespace

Command wait_command() {
  return {.name = "wait",
          .summary = "Wait until jobs have ended, or run",
          .text = embedded("cmd_wait.md"),
          .options = with_cluster(
              {{.name = "for",
                .kind = Kind::choice,
                .value = "succeeded|ended|running|suspended",
                .fallback = "succeeded",
                .doc = "What to wait for.",
                .choices = {"succeeded", "ended", "running", "suspended"}},
               {.name = "timeout",
                .kind = Kind::text,
                .value = "DURATION",
                .doc = "Give up after this time, such as 90 or 1.5h. Default: never."}}),
          .positionals = {{.name = "JOB",
                           .kind = Kind::job,
                           .doc = "The jobs' names; all of them are waited for.",
                           .repeat = true}},
          .examples = {{"adaptdl wait digits-x7k2p --timeout 1h", "Until it has succeeded."}},
          .run = run};
}

}  // namespace adaptdl::cli
