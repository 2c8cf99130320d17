#include "cli/show/jobs.h"

#include <algorithm>
#include <cmath>
#include <fmt/ranges.h>
#include <map>
#include <string_view>

#include "core/base/clock.h"
#include "core/base/number.h"
#include "core/formats/json_or_null.h"

namespace adaptdl::cli {
namespace {

std::string cell(const Json& status, const char* key) {
  if (!status.is_object()) return "-";
  const auto found = status.find(key);
  if (found == status.end() || found->is_null()) return "-";
  if (found->is_string()) return found->get<std::string>();
  if (found->is_number_float()) return fmt::format("{:.4g}", found->get<double>());
  return dump_json(*found);
}

// The record of a killed run still has the state that it had then.
std::string run_state(const launch::RunInfo& run) {
  if (run.live) return run.status.is_object() ? cell(run.status, "state") : "not answering";
  const std::string last = cell(run.status, "state");
  for (const char* ended : {"finished", "failed", "stopped", "cancelled"}) {
    if (last == ended) return last;
  }
  return "killed";
}

Json time_or_null(const std::optional<double>& wall_s) {
  return wall_s ? Json(rfc3339(*wall_s)) : Json(nullptr);
}

// Each node once, with its number of replicas.
std::string places_text(const JobView& job) {
  if (!job.slots.empty()) return fmt::format("{}", fmt::join(job.slots, ","));
  std::map<std::string, int> nodes;
  for (const std::string& node : job.nodes) ++nodes[node];
  std::string text;
  for (const auto& [node, count] : nodes) {
    if (!text.empty()) text += ",";
    text += count == 1 ? node : fmt::format("{}*{}", node, count);
  }
  return text.empty() ? "-" : text;
}

void add_training(JobRow& row, const TrainingFacts& facts) {
  const auto done = facts.done();
  row.done = done ? fmt::format("{:.0f}%", std::floor(*done * 100)) : "-";
  row.left = facts.seconds_left ? short_duration(*facts.seconds_left) : "-";
  row.goodput = facts.goodput ? short_number(*facts.goodput) + "/s" : "-";
  row.batch = facts.batch ? std::to_string(*facts.batch) : "-";
  row.gpus = gpus_text(facts);
  row.training = facts;
}

// ", no. 4 slow": which replicas are.
std::string slow_replicas(const Json& status) {
  const auto all = status.find("stragglers");
  if (all == status.end() || !all->is_array() || all->empty()) return "";
  constexpr size_t kMost = 2;
  if (all->size() > kMost) return fmt::format(", {} slow", all->size());
  std::vector<std::string> names;
  for (const Json& one : *all) names.push_back(one.is_object() ? cell(one, "member") : "-");
  return fmt::format(", no. {} slow", fmt::join(names, " and "));
}

bool has_slow_links(const Json& status) {
  const auto all = status.find("slow_links");
  return all != status.end() && all->is_array() && !all->empty();
}

// "2 -> 3" during a rescale; "2 + 1 spare"; "4, no. 1 slow"; "4, slow network".
std::string replicas_text(const Json& status, int64_t otherwise) {
  const auto now = status.find("replicas"), target = status.find("target");
  if (now == status.end() || !now->is_number_integer()) return std::to_string(otherwise);
  std::string text = dump_json(*now);
  if (target != status.end() && *target != *now) text += " -> " + dump_json(*target);
  const auto spares = status.find("spares");
  if (spares != status.end() && spares->is_number_integer() && *spares != 0) {
    text += fmt::format(" + {} spare{}", dump_json(*spares), *spares == 1 ? "" : "s");
  }
  return text + slow_replicas(status) + (has_slow_links(status) ? ", slow network" : "");
}

std::string name_in_all(const JobRow& row) {
  return row.kind + "/" + row.name_space + "/" + row.name;
}

}  // namespace

std::string gpus_text(const TrainingFacts& facts) {
  std::vector<std::string> parts;
  const auto add = [&](const std::optional<double>& value, const char* unit) {
    if (value) parts.push_back(fmt::format("{:.0f} {}", *value, unit));
  };
  add(facts.gpu_busy_percent, "% busy");
  add(facts.gpu_temperature_c, "C");
  add(facts.gpu_power_w, "W");
  return fmt::format("{}", fmt::join(parts, ", "));
}

JobRow job_row(const JobView& job, double now_s, bool wide) {
  const Json& status = job.status;
  JobRow row;
  row.name_space = job.name_space;
  row.name = job.name;
  row.kind = "job";
  row.status = job.trouble.empty() ? job.phase : fmt::format("{} ({})", job.phase, job.trouble);
  row.replicas = job.ended()          ? "-"
                 : status.is_object() ? replicas_text(status, job.replicas)
                                      : std::to_string(job.replicas);
  row.step = cell(status, "step");
  row.epoch = cell(status, "epoch");
  row.loss = cell(status, "loss");
  row.begun_s = job.submitted_s;
  row.age_s = now_s - job.submitted_s;
  row.age = short_duration(row.age_s);
  row.restarts = std::to_string(job.restarts);
  add_training(row, training_facts(job));
  if (!wide) return row;
  row.places = places_text(job);
  row.started = job.started_s ? rfc3339(*job.started_s) : "-";
  row.runtime = job.started_s ? short_duration(job.ended_s.value_or(now_s) - *job.started_s) : "-";
  row.reason = job.reason.empty() ? "-" : job.reason;
  row.program = job.program.empty() ? "-" : job.program;
  return row;
}

JobRow run_row(const launch::RunInfo& run, double now_s, bool wide) {
  const Json status = run.status.is_object() ? run.status : Json::object();
  JobRow row;
  row.name = run.name;
  row.kind = "run";
  row.status = run_state(run);
  row.replicas = run.live && status.contains("replicas") ? replicas_text(status, 0) : "-";
  row.step = cell(status, "step");
  row.epoch = cell(status, "epoch");
  row.loss = cell(status, "loss");
  const std::string begun = cell(status, "started");
  const std::optional<double> started = parse_rfc3339_s(begun);
  row.begun_s = started.value_or(0);
  if (started) row.age_s = now_s - *started;
  row.age = started ? short_duration(row.age_s) : "-";
  row.restarts = "-";
  add_training(row, run.live ? training_facts(status) : TrainingFacts());
  if (!wide) return row;
  row.places = row.reason = "-";
  row.started = begun;
  row.runtime = run.live ? row.age : "-";
  row.program = cell(status, "program");
  return row;
}

std::vector<JobColumn> job_columns(const std::vector<JobRow>& rows, const TableLook& look) {
  std::vector<JobColumn> columns;
  const auto add = [&](bool wanted, std::initializer_list<JobColumn> more) {
    if (wanted) columns.insert(columns.end(), more);
  };
  add(look.name_spaces, {{"NAMESPACE", &JobRow::name_space}});
  add(true, {{"NAME", &JobRow::name},
             {"KIND", &JobRow::kind},
             {"STATUS", &JobRow::status},
             {"REPLICAS", &JobRow::replicas},
             {"STEP", &JobRow::step},
             {"EPOCH", &JobRow::epoch},
             {"LOSS", &JobRow::loss},
             {"AGE", &JobRow::age},
             {"RESTARTS", &JobRow::restarts}});
  add(look.wide, {{"SLOTS", &JobRow::places},
                  {"STARTED", &JobRow::started},
                  {"RUNTIME", &JobRow::runtime},
                  {"REASON", &JobRow::reason},
                  {"PROGRAM", &JobRow::program}});
  add(true, {{"DONE", &JobRow::done}, {"LEFT", &JobRow::left}});
  add(look.wide || look.figures, {{"GOODPUT", &JobRow::goodput}, {"BATCH", &JobRow::batch}});
  if (look.width == 0) return columns;
  const auto width = [&] {
    size_t all = 0;
    for (const JobColumn& column : columns) {
      size_t most = std::string_view(column.head).size();
      for (const JobRow& row : rows) most = std::max(most, (row.*column.text).size());
      all += most + 2;
    }
    return all - 2;
  };
  for (const char* lesser : {"STEP", "EPOCH", "KIND", "RESTARTS", "BATCH", "GOODPUT", "AGE"}) {
    if (width() <= look.width) break;
    std::erase_if(columns,
                  [&](const JobColumn& column) { return std::string_view(column.head) == lesser; });
  }
  return columns;
}

std::string rows_table(std::vector<JobRow> rows, const std::vector<JobColumn>& columns,
                       std::vector<size_t>* widths) {
  std::vector<std::string> head;
  for (const JobColumn& column : columns) head.emplace_back(column.head);
  std::vector<std::vector<std::string>> cells(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    cells[i].reserve(columns.size());
    for (const JobColumn& column : columns) cells[i].push_back(std::move(rows[i].*column.text));
  }
  return table(head, std::move(cells), widths);
}

bool ShownRows::has(const JobRow& row) const {
  return signs_.contains(name_in_all(row));
}

bool ShownRows::take(const JobRow& row) {
  std::string sign =
      fmt::format("{}\n{}\n{}\n{}", row.begun_s, row.status, row.replicas, row.restarts);
  std::string& before = signs_[name_in_all(row)];
  if (before == sign) return false;
  before = std::move(sign);
  return true;
}

Json job_json(const JobView& job) {
  const Json& status = job.status;
  const auto value = [&](const char* key) {
    return status.is_object() ? status.value(key, Json()) : Json();
  };
  const TrainingFacts training = training_facts(job);
  Json record = {{"name", job.name},
                 {"phase", job.phase},
                 {"reason", job.reason.empty() ? Json() : Json(job.reason)},
                 {"message", job.message.empty() ? Json() : Json(job.message)},
                 {"why", job.why.empty() ? Json() : Json(job.why)},
                 {"submitted", rfc3339(job.submitted_s)},
                 {"started", time_or_null(job.started_s)},
                 {"ended", time_or_null(job.ended_s)},
                 {"replicas", job.replicas},
                 {"min_replicas", job.min_replicas},
                 {"max_replicas", job.max_replicas ? Json(*job.max_replicas) : Json()},
                 {"slots", job.slots},
                 {"restarts", job.restarts},
                 {"failures", job.failures},
                 {"service_s", job.service_s},
                 {"suspended", job.suspended},
                 {"cancelled", job.cancelled},
                 {"exit_code", job.exit_code ? Json(*job.exit_code) : Json()},
                 {"step", value("step")},
                 {"epoch", value("epoch")},
                 {"loss", value("loss")},
                 {"progress", or_null(training.progress)},
                 {"progress_total", or_null(training.progress_total)},
                 {"seconds_left", or_null(training.seconds_left)},
                 {"goodput", or_null(training.goodput)},
                 {"batch", or_null(training.batch)}};
  if (!job.name_space.empty()) {
    record.erase("slots");
    record["namespace"] = job.name_space;
    record["nodes"] = job.nodes;
  }
  return record;
}

Json run_json(const launch::RunInfo& run) {
  return {
      {"name", run.name}, {"live", run.live}, {"state", run_state(run)}, {"status", run.status}};
}

Json event_json(const JobEvent& event) {
  return {{"id", event.id},     {"time", rfc3339(event.time_s)}, {"job", event.job},
          {"kind", event.kind}, {"message", event.message},      {"warning", event.warning}};
}

}  // namespace adaptdl::cli
