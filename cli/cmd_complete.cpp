// What the completion scripts ask for.

#include "cli/commands.h"
#include "cli/jobs.h"
#include "cli/output.h"
#include "cli/parse.h"

namespace adaptdl::cli {
namespace {

constexpr int kMost = 200;  // of the newest: nobody reads more of them

int run(const Arguments& arguments) {
  const auto store = local::open_store();
  const std::string prefix = arguments.positional("PREFIX").value_or("");
  for (const std::string& name : job_and_run_names(store.get(), prefix, kMost)) print_line(name);
  return 0;
}

}  // namespace

Command complete_command() {
  return {
      .name = "__complete",
      .summary = "Print the names of jobs and live runs",
      .positionals = {{.name = "WHAT", .kind = Kind::choice, .doc = "jobs.", .choices = {"jobs"}},
                      {.name = "PREFIX", .doc = "How they begin.", .required = false}},
      .hidden = true,
      .run = run};
}

}  // namespace adaptdl::cli
