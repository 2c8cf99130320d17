#include "cli/cluster_choice.h"
#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/jobs.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/record_format.h"
#include "cli/yaml_text.h"
#include "core/base/error.h"

namespace adaptdl::cli {
namespace {

constexpr int kEvents = 1000;        // that the store keeps of a job, at most
constexpr size_t kEventsShown = 20;  // the newest

Json parsed(const std::string& text, const char* what) {
  return text.empty() ? Json() : parse_json(text, what);
}

// For people: "key: value" in a column; nothing where there is nothing to say.
void line(std::string& text, const char* key, const std::string& value) {
  if (!value.empty()) text += fmt::format("{:<13}{}\n", fmt::format("{}:", key), value);
}

// YAML, indented under its heading.
void section(std::string& text, const char* heading, const Json& value) {
  if (value.is_null() || value.empty()) return;
  text += fmt::format("\n{}:\n", heading);
  std::string yaml = yaml_text(value, false);
  for (size_t start = 0, end; (end = yaml.find('\n', start)) != std::string::npos;
       start = end + 1) {
    text += "  " + yaml.substr(start, end - start + 1);
  }
}

std::string times(const local::JobRecord& job) {
  std::string text = time_text(job.submitted_s);
  if (job.started_s) text += ", started " + time_text(*job.started_s);
  if (job.ended_s) text += ", ended " + time_text(*job.ended_s);
  return text;
}

std::string describe(const local::JobRecord& job, const Json& status, const Json& spec,
                     const Json& hints, std::vector<local::EventRecord> events) {
  std::string text;
  line(text, "Name", job.name);
  std::string phase = job.phase;
  if (!job.reason.empty()) phase += " (" + job.reason + ")";
  line(text, "Status", job.message.empty() ? phase : phase + ": " + job.message);
  if (job.exit_code) line(text, "Exit code", std::to_string(*job.exit_code));
  line(text, "Submitted", times(job));
  line(text, "Replicas",
       fmt::format("{} of {} to {}", job.replicas, job.min_replicas, job.max_replicas));
  if (!job.slots.empty()) line(text, "Slots", fmt::format("{}", fmt::join(job.slots, ", ")));
  line(text, "Why", job.why);
  line(text, "Restarts",
       fmt::format("{} changes of its allocation, {} failures in a row", job.restarts,
                   job.failures));
  line(text, "Service", short_duration(job.service_s) + " of slots");
  line(text, "Folder", local::local_paths().job(job.name));
  section(text, "Spec", spec);
  section(text, job.ended() ? "At its end" : "Runner", status);
  section(text, "Hints", hints);
  if (events.empty()) return text;
  text += "\nEvents:\n";
  const size_t first = events.size() - std::min(events.size(), kEventsShown);
  std::vector<std::vector<std::string>> rows;
  for (size_t i = first; i < events.size(); ++i) {
    rows.push_back({"  " + short_duration(wall_now_s() - events[i].time_s), events[i].kind,
                    events[i].message});
  }
  text += table({"  AGE", "KIND", "MESSAGE"}, rows);
  if (first > 0) text += fmt::format("  `adaptdl events {}` has {} older ones.\n", job.name, first);
  return text;
}

int run(const Arguments& arguments) {
  require_local_cluster(arguments);
  const auto store = local::open_store();
  const local::JobRecord job = find_job(store.get(), *arguments.positional("JOB"));
  const Json status = job_status(job, true);
  const Json spec = parsed(job.spec, "the job's specification");
  const Json hints = parsed(job.hints, "the job's hints");
  std::vector<local::EventRecord> events = store->events(job.name, 0, kEvents);
  const std::string format = arguments.text("format");
  if (format == "name") {
    print_line(job.name);
  } else if (is_record_format(format)) {
    Json record = job_json(job, status);
    record["spec"] = spec;
    record["hints"] = hints;
    record["runner"] = status;
    record["folder"] = local::local_paths().job(job.name);
    record["events"] = Json::array();
    for (const local::EventRecord& event : events) record["events"].push_back(event_json(event));
    print_record(record, format);
  } else {
    print(describe(job, status, spec, hints, std::move(events)));
  }
  return 0;
}

}  // namespace

Command describe_command() {
  return {.name = "describe",
          .summary = "Show all that is known of a job",
          .text = embedded("cmd_describe.md"),
          .options = {{.name = "format",
                       .letter = 'o',
                       .kind = Kind::choice,
                       .value = "text|json|yaml|name|jsonpath=PATH",
                       .fallback = "text",
                       .doc = "How to print the result.",
                       .choices = {"text", "json", "yaml", "name", kJsonPathFormat}},
                      cluster_option()},
          .positionals = {{.name = "JOB", .kind = Kind::job, .doc = "The job's name."}},
          .examples = {{"adaptdl describe digits-x7k2p", "Its state, what it runs, its events."}},
          .run = run};
}

}  // namespace adaptdl::cli
