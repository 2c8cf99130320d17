#include <chrono>
#include <thread>

#include "cli/cluster_choice.h"
#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/jobs.h"
#include "cli/output.h"
#include "cli/parse.h"

namespace adaptdl::cli {
namespace {

constexpr auto kLook = std::chrono::milliseconds(300);
constexpr int kPage = 1000;

// Those later than `after`, which is moved behind them.
std::vector<local::EventRecord> newer(local::JobStore& store, const std::string& job,
                                      int64_t& after) {
  std::vector<local::EventRecord> all;
  for (;;) {
    std::vector<local::EventRecord> page = store.events(job, after, kPage);
    if (page.empty()) return all;
    after = page.back().id;
    all.insert(all.end(), std::make_move_iterator(page.begin()),
               std::make_move_iterator(page.end()));
  }
}

void print_events(const std::vector<local::EventRecord>& events, bool json) {
  std::string text;
  for (const local::EventRecord& event : events) {
    text += json ? dump_json(event_json(event))
                 : fmt::format("{}  {:<12}  {}  {}{}", time_text(event.time_s), event.kind,
                               event.job, event.warning ? "warning: " : "", event.message);
    while (!json && text.back() == ' ') text.pop_back();
    text += '\n';
  }
  print(text);
}

int run(const Arguments& arguments) {
  require_local_cluster(arguments);
  const bool follow = arguments.flag("follow");
  auto store = local::open_store();
  const std::string name = arguments.positional("JOB").value_or("");
  if (!name.empty()) find_job(store.get(), name);
  int64_t after = 0;
  std::vector<local::EventRecord> events;
  if (store) events = newer(*store, name, after);
  if (arguments.given("tail")) {
    const auto keep = std::min(events.size(), static_cast<size_t>(arguments.integer("tail")));
    events.erase(events.begin(), events.end() - static_cast<std::ptrdiff_t>(keep));
  }
  if (arguments.json() && !follow) {
    Json list = Json::array();
    for (const local::EventRecord& event : events) list.push_back(event_json(event));
    print_json({{"events", std::move(list)}});
    return 0;
  }
  print_events(events, arguments.json());
  if (events.empty() && !follow && !arguments.quiet()) talk("There are no events.");
  while (follow) {
    std::this_thread::sleep_for(kLook);
    if (!store) store = local::open_store();
    if (!store) continue;
    // Asked before reading: events up to the end are then read for sure.
    const auto job = name.empty() ? std::nullopt : store->find(name);
    print_events(newer(*store, name, after), arguments.json());
    if (!name.empty() && (!job || job->ended())) break;
  }
  return 0;
}

}  // namespace

Command events_command() {
  return {.name = "events",
          .summary = "Show what happened to jobs",
          .text = embedded("cmd_events.md"),
          .options = {{.name = "follow", .letter = 'f', .doc = "Go on until the job ends."},
                      {.name = "tail",
                       .kind = Kind::integer,
                       .value = "N",
                       .doc = "Only the last N. Default: all.",
                       .min = 0},
                      format_option(),
                      cluster_option()},
          .positionals = {{.name = "JOB",
                           .kind = Kind::job,
                           .doc = "Only of that job. Default: of all.",
                           .required = false}},
          .examples = {{"adaptdl events -f", "Follow what the scheduler does."}},
          .run = run};
}

}  // namespace adaptdl::cli
