// What the completion scripts ask for.

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "core/launch/client.h"

namespace adaptdl::cli {
namespace {

int run(const Arguments&) {
  for (const std::string& name : launch::live_run_names()) print_line(name);
  return 0;
}

}  // namespace

Command complete_command() {
  return {
      .name = "__complete",
      .summary = "Print the names of live runs",
      .positionals = {{.name = "WHAT", .kind = Kind::choice, .doc = "runs.", .choices = {"runs"}}},
      .hidden = true,
      .run = run};
}

}  // namespace adaptdl::cli
