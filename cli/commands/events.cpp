#include <chrono>
#include <thread>

#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/frame/cluster_flags.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "cli/show/jobs.h"
#include "core/base/clock.h"
#include "core/base/text.h"

namespace adaptdl::cli {
namespace {

constexpr auto kLook = std::chrono::milliseconds(300);

void print_events(const std::vector<JobEvent>& events, bool json) {
  std::string text;
  for (const JobEvent& event : events) {
    text += json ? printable_json(event_json(event))
                 : fmt::format("{}  {:<12}  {}  {}{}", rfc3339(event.time_s), event.kind, event.job,
                               event.warning ? "warning: " : "", without_controls(event.message));
    while (!json && text.back() == ' ') text.pop_back();
    text += '\n';
  }
  print(text);
}

int run_events(const Arguments& arguments) {
  const bool follow = arguments.flag("follow");
  const auto query = open_cluster(arguments).query;
  const std::string name = arguments.positional("JOB").value_or("");
  if (!name.empty()) query->find(name);
  const auto reader = query->events(name, follow);
  std::vector<JobEvent> events = reader->next();
  if (arguments.given("tail")) {
    const auto keep = std::min(events.size(), static_cast<size_t>(arguments.integer("tail")));
    events.erase(events.begin(), events.end() - static_cast<std::ptrdiff_t>(keep));
  }
  if (arguments.json() && !follow) {
    Json list = Json::array();
    for (const JobEvent& event : events) list.push_back(event_json(event));
    print_json({{"events", std::move(list)}});
    return 0;
  }
  print_events(events, arguments.json());
  if (events.empty() && !follow && !arguments.quiet()) talk("There are no events.");
  while (follow) {
    std::this_thread::sleep_for(kLook);
    // Ask before reading: then events up to the job's end are certainly read.
    const auto job = name.empty() ? std::nullopt : query->look(name);
    print_events(reader->next(), arguments.json());
    if (!name.empty() && (!job || job->ended())) break;
  }
  return 0;
}

}  // namespace

Command events_command() {
  return {.name = "events",
          .summary = "Show the events of jobs",
          .text = embedded("events.md"),
          .options = with_cluster(
              {{.name = "follow", .letter = 'f', .doc = "Continue until the job ends."},
               {.name = "tail",
                .kind = Kind::integer,
                .value = "N",
                .doc = "Show only the last N events. Default: all.",
                .min = 0},
               format_option()}),
          .positionals = {{.name = "JOB",
                           .kind = Kind::job,
                           .doc = "Show only the events of this job. Default: all jobs.",
                           .required = false}},
          .examples = {{"adaptdl events -f", "Follow the scheduler's decisions."}},
          .run = run_events};
}

}  // namespace adaptdl::cli
