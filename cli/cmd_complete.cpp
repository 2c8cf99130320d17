// What the completion scripts ask for.

#include "cli/cluster_jobs.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "core/base/error.h"

namespace adaptdl::cli {
namespace {

constexpr int kMost = 200;  // of the newest: nobody reads more of them

int run(const Arguments& arguments) {
  const std::string prefix = arguments.positional("PREFIX").value_or("");
  std::vector<std::string> names;
  try {
    names = open_cluster(arguments)->names(prefix, kMost);
  } catch (const Error&) {
    return 1;  // what is said here would stand in the middle of the user's line
  }
  for (const std::string& name : names) print_line(name);
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
