#include <chrono>
#include <thread>

#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/log_follower.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "core/launch/client.h"

namespace adaptdl::cli {
namespace {

constexpr auto kLook = std::chrono::milliseconds(200);

std::string log_folder(const std::string& name) {
  const Json record = launch::read_record(name);
  if (record.is_object()) return json_get<std::string>(record, "log_dir", "record of run " + name);
  // Not known: the request's sentence says which runs there are.
  const Json status = launch::request(name, {{"request", "status"}});
  return json_get<std::string>(status, "log_dir", "run " + name);
}

int run(const Arguments& arguments) {
  const std::string name = *arguments.positional("NAME");
  std::optional<int64_t> only, tail;
  if (arguments.given("replica")) only = arguments.integer("replica");
  if (arguments.given("tail")) tail = arguments.integer("tail");
  LogFollower follower(log_folder(name), only);
  const LogLine print_log = [&](int64_t replica, const std::string& line) {
    print_line(only ? line : fmt::format("[replica {}] {}", replica, line));
  };
  follower.tail(tail, print_log);
  while (arguments.flag("follow")) {
    // Asked before reading: lines written up to the end are then read for sure.
    const bool live = launch::is_live(name);
    const bool any = follower.next(print_log, !live);
    if (!live) break;
    if (!any) std::this_thread::sleep_for(kLook);
  }
  follower.next(print_log, true);
  if (follower.replicas() == 0) {
    if (only) fail("run {} has no log of replica {}", name, *only);
    if (!arguments.quiet()) talk("There are no logs yet.");
  }
  return 0;
}

}  // namespace

Command logs_command() {
  return {.name = "logs",
          .summary = "Show what the replicas of a run print",
          .text = embedded("cmd_logs.md"),
          .options = {{.name = "follow", .letter = 'f', .doc = "Go on until the run ends."},
                      {.name = "replica",
                       .kind = Kind::integer,
                       .value = "ID",
                       .doc = "Only of that replica.",
                       .min = 0},
                      {.name = "tail",
                       .kind = Kind::integer,
                       .value = "N",
                       .doc = "Only the last N lines of each replica. Default: all.",
                       .min = 0}},
          .positionals = {{.name = "NAME", .kind = Kind::run, .doc = "The run's name."}},
          .examples = {{"adaptdl logs digits -f --tail 10", "Follow all replicas."}},
          .run = run};
}

}  // namespace adaptdl::cli
