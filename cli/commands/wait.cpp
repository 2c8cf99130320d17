#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/frame/cluster_flags.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "core/base/log.h"
#include "core/client/job_wait.h"

namespace adaptdl::cli {
namespace {

int run_wait(const Arguments& arguments) {
  const auto query = open_cluster(arguments).query;
  std::optional<Seconds> timeout;
  if (arguments.given("timeout")) timeout = Seconds(arguments.seconds("timeout"));
  const WaitResult result =
      wait_for_jobs(*query, arguments.rest(), wait_goal(arguments.text("for")), timeout, [] {});
  if (result.code != ExitCode::ok) {
    throw Error(result.sentence, result.code);
  }
  if (!arguments.quiet()) talk(printable(result.sentence));
  return 0;
}

}  // namespace

Command wait_command() {
  return {.name = "wait",
          .summary = "Wait until jobs have ended, or reach another state",
          .text = embedded("wait.md"),
          .options = with_cluster(
              {{.name = "for",
                .kind = Kind::choice,
                .value = "succeeded|ended|running|suspended",
                .fallback = "succeeded",
                .doc = "State to wait for.",
                .choices = {"succeeded", "ended", "running", "suspended"}},
               {.name = "timeout",
                .kind = Kind::text,
                .value = "DURATION",
                .doc = "Give up after this time, such as 90 (seconds) or 1.5h. Default: never."}}),
          .positionals = {{.name = "JOB",
                           .kind = Kind::job,
                           .doc = "The jobs' names; the command waits for all of them.",
                           .repeat = true}},
          .examples = {{"adaptdl wait digits-x7k2p --timeout 1h", "Wait until it has succeeded."}},
          .run = run_wait};
}

}  // namespace adaptdl::cli
