#include "cli/show/jobs.h"

#include <cmath>
#include <fmt/ranges.h>
#include <map>

#include "core/base/clock.h"
#include "core/base/number.h"

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

// "2 -> 3" during a rescale.
std::string replicas_text(const Json& status, int64_t otherwise) {
  const auto now = status.find("replicas"), target = status.find("target");
  if (now == status.end() || !now->is_number_integer()) return std::to_string(otherwise);
  if (target == status.end() || *target == *now) return dump_json(*now);
  return dump_json(*now) + " -> " + dump_json(*target);
}

}  // namespace

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
  row.age = short_duration(now_s - job.submitted_s);
  row.restarts = std::to_string(job.restarts);
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
  row.age = started ? short_duration(now_s - *started) : "-";
  row.restarts = "-";
  if (!wide) return row;
  row.places = row.reason = "-";
  row.started = begun;
  row.runtime = run.live ? row.age : "-";
  row.program = cell(status, "program");
  return row;
}

std::string rows_table(std::vector<JobRow> rows, bool wide, bool name_spaces) {
  std::vector<std::string> head = {"NAME",  "KIND", "STATUS", "REPLICAS", "STEP",
                                   "EPOCH", "LOSS", "AGE",    "RESTARTS"};
  if (wide) head.insert(head.end(), {"SLOTS", "STARTED", "RUNTIME", "REASON", "PROGRAM"});
  std::vector<std::vector<std::string>> cells(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    JobRow& row = rows[i];
    cells[i].reserve(head.size() + 1);
    for (std::string* text : {&row.name, &row.kind, &row.status, &row.replicas, &row.step,
                              &row.epoch, &row.loss, &row.age, &row.restarts, &row.places,
                              &row.started, &row.runtime, &row.reason, &row.program}) {
      if (cells[i].size() < head.size()) cells[i].push_back(std::move(*text));
    }
  }
  if (name_spaces) {
    head.insert(head.begin(), "NAMESPACE");
    for (size_t i = 0; i < rows.size(); ++i) {
      cells[i].insert(cells[i].begin(), std::move(rows[i].name_space));
    }
  }
  return table(head, cells);
}

Json job_json(const JobView& job) {
  const Json& status = job.status;
  const auto value = [&](const char* key) {
    return status.is_object() ? status.value(key, Json()) : Json();
  };
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
                 {"loss", value("loss")}};
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
