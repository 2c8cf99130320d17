// The candidates for the completion scripts.

#include "cli/commands.h"
#include "cli/frame/cluster_flags.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "core/base/error.h"

namespace adaptdl::cli {
namespace {

constexpr int kMost = 200;  // newest names; more would be unreadable

int run_complete(const Arguments& arguments) {
  const std::string prefix = arguments.positional("PREFIX").value_or("");
  std::vector<std::string> names;
  try {
    const auto query = open_cluster(arguments).query;
    const bool runs_too = *arguments.positional("WHAT") == "names";
    names = runs_too ? query->names(prefix, kMost) : query->job_names(prefix, kMost);
  } catch (const Error&) {
    return 1;  // an error message would appear within the user's command line
  }
  for (const std::string& name : names) print_line(name);
  return 0;
}

}  // namespace

Command complete_command() {
  return {.name = "__complete",
          .summary = "Print the names of jobs and live runs",
          .positionals = {{.name = "WHAT",
                           .kind = Kind::choice,
                           .doc = "jobs; names: also live runs.",
                           .choices = {"jobs", "names"}},
                          {.name = "PREFIX", .doc = "Prefix of the names.", .required = false}},
          .hidden = true,
          .run = run_complete};
}

}  // namespace adaptdl::cli
