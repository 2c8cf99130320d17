#include <fmt/ranges.h>

#include "cli/commands.h"
#include "cli/embedded.h"
#include "cli/frame/cluster_flags.h"
#include "cli/frame/output.h"
#include "cli/frame/parse.h"
#include "cli/frame/record_format.h"
#include "cli/show/jobs.h"
#include "cli/show/progress.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/number.h"
#include "core/base/text.h"
#include "core/formats/yaml_text.h"

namespace adaptdl::cli {
namespace {

constexpr size_t kEventsShown = 20;  // the newest

// A "key: value" line for people; nothing if the value is empty.
void line(std::string& text, const char* key, const std::string& value) {
  if (!value.empty())
    text += fmt::format("{:<13}{}\n", fmt::format("{}:", key), without_controls(value));
}

// Adds a heading and YAML, indented.
void section(std::string& text, const char* heading, const Json& value) {
  if (value.is_null() || value.empty()) return;
  text += fmt::format("\n{}:\n", heading);
  std::string yaml = yaml_text(value, false);
  for (size_t start = 0, end; (end = yaml.find('\n', start)) != std::string::npos;
       start = end + 1) {
    text += "  " + yaml.substr(start, end - start + 1);
  }
}

std::string times(const JobView& job) {
  std::string text = rfc3339(job.submitted_s);
  if (job.started_s) text += ", started " + rfc3339(*job.started_s);
  if (job.ended_s) text += ", ended " + rfc3339(*job.ended_s);
  return text;
}

// Adds a title and a table, indented by two blanks.
void add_table(std::string& text, const std::string& title, std::vector<std::string> head,
               std::vector<std::vector<std::string>> rows) {
  if (rows.empty()) return;
  head[0] = "  " + head[0];
  for (std::vector<std::string>& row : rows) row[0] = "  " + row[0];
  text += fmt::format("\n{}:\n{}", title, table(head, rows));
}

std::string replicas_text(const JobView& job) {
  const auto least = std::max(job.min_replicas, 1);  // 0 means the same
  if (job.max_replicas) {
    return fmt::format("{} of {} to {}", job.replicas, least, *job.max_replicas);
  }
  return fmt::format("{} of {} or more", job.replicas, least);
}

// Replicas and networks that are much slower than the others, with the evidence.
std::vector<std::string> slow_parts(const JobView& job) {
  std::vector<std::string> lines;
  if (!job.status.is_object()) return lines;
  const auto add = [&](const char* key, std::string (*line_of)(const Json&)) {
    const auto all = job.status.find(key);
    if (all == job.status.end() || !all->is_array()) return;
    for (const Json& one : *all) lines.push_back(line_of(one));
  };
  add("stragglers", slow_replica_line);
  add("slow_links", slow_link_line);
  return lines;
}

std::string describe_job(const JobView& job, const JobDetails& details) {
  std::string text;
  line(text, "Name", job.name);
  line(text, "Namespace", job.name_space);
  std::string phase = job.phase;
  if (!job.reason.empty()) phase += " (" + job.reason + ")";
  line(text, "Status", job.message.empty() ? phase : phase + ": " + job.message);
  if (job.exit_code) line(text, "Exit code", std::to_string(*job.exit_code));
  line(text, "Submitted", times(job));
  line(text, "Replicas", replicas_text(job));
  if (!job.slots.empty()) line(text, "Slots", fmt::format("{}", fmt::join(job.slots, ", ")));
  if (!job.nodes.empty()) line(text, "Nodes", fmt::format("{}", fmt::join(job.nodes, ", ")));
  line(text, "Why", job.why);
  for (const std::string& slow : slow_parts(job)) line(text, "Slow", slow);
  line(text, "GPUs", gpus_text(training_facts(job)));
  line(text, "Restarts",
       fmt::format("{} changes of its allocation, {} failures in a row", job.restarts,
                   job.failures));
  for (const auto& [key, value] : details.lines) line(text, key.c_str(), value);
  for (const JobDetails::Table& each : details.tables) {
    add_table(text, each.title, each.head, each.rows);
  }
  for (const auto& [heading, value] : details.sections) section(text, heading.c_str(), value);
  const std::vector<JobEvent>& events = details.events;
  const size_t first = events.size() - std::min(events.size(), kEventsShown);
  std::vector<std::vector<std::string>> rows;
  for (size_t i = first; i < events.size(); ++i) {
    rows.push_back(
        {short_duration(wall_now_s() - events[i].time_s), events[i].kind, events[i].message});
  }
  add_table(text, "Events", {"AGE", "KIND", "MESSAGE"}, std::move(rows));
  if (first > 0) text += fmt::format("  `adaptdl events {}` has {} older ones.\n", job.name, first);
  return text;
}

int run_describe(const Arguments& arguments) {
  const auto query = open_cluster(arguments).query;
  const JobView job = query->find(*arguments.positional("JOB"));
  const std::string format = arguments.text("format");
  if (format == "name") {
    print_line(job.name);
    return 0;
  }
  JobDetails details = query->details(job);
  if (is_record_format(format)) {
    Json record = job_json(job);
    record.update(details.record);
    record["events"] = Json::array();
    for (const JobEvent& event : details.events) record["events"].push_back(event_json(event));
    print_record(record, format);
  } else {
    print(describe_job(job, details));
  }
  return 0;
}

}  // namespace

Command describe_command() {
  return {
      .name = "describe",
      .summary = "Show the details of a job",
      .text = embedded("describe.md"),
      .options = with_cluster({{.name = "format",
                                .letter = 'o',
                                .kind = Kind::choice,
                                .value = "text|json|yaml|name|jsonpath=PATH",
                                .fallback = "text",
                                .doc = "Output format.",
                                .choices = {"text", "json", "yaml", "name", kJsonPathFormat}}}),
      .positionals = {{.name = "JOB", .kind = Kind::job, .doc = "The job's name."}},
      .examples = {{"adaptdl describe digits-x7k2p", "Its state, what it runs, and its events."}},
      .run = run_describe};
}

}  // namespace adaptdl::cli
