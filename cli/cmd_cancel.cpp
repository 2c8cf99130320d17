#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "core/launch/client.h"

namespace adaptdl::cli {
namespace {

int run(const Arguments& arguments) {
  const std::string name = *arguments.positional("NAME");
  const bool now = arguments.flag("now");
  launch::request(name, {{"request", "cancel"}, {"checkpoint", !now}});
  if (arguments.json()) {
    print_json({{"name", name}, {"checkpoint", !now}});
  } else {
    print_line(fmt::format("{}: ends {}", name, now ? "now" : "after a checkpoint"));
  }
  return 0;
}

}  // namespace

Command cancel_command() {
  return {.name = "cancel",
          .summary = "End a live run, after a checkpoint",
          .text = embedded("cmd_cancel.md"),
          .options = {{.name = "now", .doc = "Without a checkpoint."}, format_option()},
          .positionals = {{.name = "NAME", .kind = Kind::run, .doc = "The run's name."}},
          .examples = {{"adaptdl cancel digits", "End it; the same run command goes on later."}},
          .run = run};
}

}  // namespace adaptdl::cli
