#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "core/base/number.h"
#include "core/launch/client.h"
#include "core/launch/run.h"

namespace adaptdl::cli {
namespace {

int run(const Arguments& arguments) {
  const std::string name = *arguments.positional("NAME");
  int64_t count = 0;
  try {
    count = parse_int(*arguments.positional("N"), "N", 1, launch::kMaxReplicas);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
  const Json answer = launch::request(name, {{"request", "scale"}, {"replicas", count}});
  if (arguments.json()) {
    print_json({{"name", name},
                {"from", answer.value("from", Json(nullptr))},
                {"to", answer.value("to", Json(nullptr))}});
    return 0;
  }
  print_line(fmt::format("{}: replicas {} -> {}", name,
                         dump_json(answer.value("from", Json(nullptr))), count));
  if (!arguments.quiet()) talk("It keeps training meanwhile; `adaptdl ls` shows how far it is.");
  return 0;
}

}  // namespace

Command scale_command() {
  return {.name = "scale",
          .summary = "Change the number of replicas of a live run",
          .text = embedded("cmd_scale.md"),
          .options = {format_option()},
          .positionals = {{.name = "NAME", .kind = Kind::run, .doc = "The run's name."},
                          {.name = "N", .doc = "How many replicas it shall have."}},
          .examples = {{"adaptdl scale digits 3", "Go on with 3 replicas."}},
          .run = run};
}

}  // namespace adaptdl::cli
