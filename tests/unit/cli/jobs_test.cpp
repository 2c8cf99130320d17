#include "cli/show/jobs.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/client/job_wait.h"
#include "core/formats/yaml.h"
#include "core/formats/yaml_text.h"

namespace adaptdl::cli {
namespace {

TEST_CASE("durations for columns") {
  CHECK(short_duration(-3) == "0s");
  CHECK(short_duration(59.9) == "59s");
  CHECK(short_duration(727) == "12m07s");
  CHECK(short_duration(3 * 3600 + 5 * 60) == "3h05m");
  CHECK(short_duration(4 * 86400 + 2 * 3600) == "4d02h");
}

TEST_CASE("numbers for columns") {
  CHECK(short_number(0) == "0.00");
  CHECK(short_number(999.4) == "999");
  CHECK(short_number(12345) == "12.3k");
  CHECK(short_number(2.5e6) == "2.50M");
}

TEST_CASE("words for a shell") {
  CHECK(shell_word("/tmp/a-b_c.d") == "/tmp/a-b_c.d");
  CHECK(shell_word("") == "''");
  CHECK(shell_word("a b") == "'a b'");
  CHECK(shell_word("~x") == "'~x'");
  CHECK(shell_word("it's $1") == "'it'\\''s $1'");
}

TEST_CASE("rows of jobs") {
  JobView job;
  job.name = "digits-x7k2p";
  job.phase = "Running";
  job.submitted_s = 1000;
  job.started_s = 1010;
  job.replicas = 2;
  job.slots = {0, 3};
  job.restarts = 4;
  job.status = {{"replicas", 1}, {"target", 2}, {"step", 7}, {"loss", 0.125}};
  const JobRow row = job_row(job, 1070, true);
  CHECK(row.replicas == "1 -> 2");
  CHECK(row.step == "7");
  CHECK(row.loss == "0.125");
  CHECK(row.epoch == "-");
  CHECK(row.age == "1m10s");
  CHECK(row.runtime == "1m00s");
  CHECK(row.places == "0,3");
  job.status["stragglers"] = {{{"member", 4}}};
  CHECK(job_row(job, 1070, true).replicas == "1 -> 2, no. 4 slow");
  job.status["stragglers"] = {{{"member", 4}}, {{"member", 6}}};
  CHECK(job_row(job, 1070, true).replicas == "1 -> 2, no. 4 and 6 slow");
  job.status["stragglers"].push_back({{"member", 7}});
  CHECK(job_row(job, 1070, true).replicas == "1 -> 2, 3 slow");
  job.status["slow_links"] = {{{"host", "node7"}}};
  CHECK(job_row(job, 1070, true).replicas == "1 -> 2, 3 slow, slow network");
  job.status = nullptr;
  CHECK(job_row(job, 1070, true).replicas == "2");
  job.ended_s = 1020;
  CHECK(job_row(job, 1070, true).replicas == "-");
  CHECK(job_row(job, 1070, true).runtime == "10s");
}

JobRow training_row() {
  JobView job;
  job.name = "digits-x7k2p";
  job.phase = "Running";
  job.replicas = 2;
  job.status = {{"replicas", 2},     {"target", 2},           {"step", 5120},
                {"epoch", 1.25},     {"loss", 0.125},         {"progress", 4299.0},
                {"batch", 192},      {"progress_total", 1e4}, {"seconds_left", 727.5},
                {"goodput", 12345.0}};
  return job_row(job, 3700, false);
}

TEST_CASE("progress, time left, goodput and batch of a row") {
  const JobRow row = training_row();
  CHECK(row.done == "42%");
  CHECK(row.left == "12m07s");
  CHECK(row.goodput == "12.3k/s");
  CHECK(row.batch == "192");
  JobView waiting;
  const JobRow none = job_row(waiting, 0, false);
  for (const std::string& text : {none.done, none.left, none.goodput, none.batch}) {
    CHECK(text == "-");
  }
  launch::RunInfo run{"digits", true, {{"progress", 1}, {"progress_total", 2}}};
  CHECK(run_row(run, 0, false).done == "50%");
  run.live = false;
  CHECK(run_row(run, 0, false).done == "-");
}

TEST_CASE("records have the numbers, or null") {
  JobView job;
  job.replicas = 1;
  job.status = {{"progress", 1.5}, {"progress_total", 3.0}, {"seconds_left", 9.5}};
  Json record = job_json(job);
  CHECK(record["progress"] == 1.5);
  CHECK(record["progress_total"] == 3.0);
  CHECK(record["seconds_left"] == 9.5);
  CHECK(record["goodput"].is_null());
  CHECK(record["batch"].is_null());
  job.ended_s = 1;
  record = job_json(job);
  CHECK(record["progress"].is_null());
  CHECK(record["seconds_left"].is_null());
}

std::string heads(const std::vector<JobColumn>& columns) {
  std::string text;
  for (const JobColumn& column : columns) text += std::string(column.head) + " ";
  return text;
}

TEST_CASE("new columns come after those that scripts count") {
  const std::vector<JobRow> rows = {training_row()};
  CHECK(heads(job_columns(rows, {})) ==
        "NAME KIND STATUS REPLICAS STEP EPOCH LOSS AGE RESTARTS DONE LEFT ");
  CHECK(heads(job_columns(rows, {.wide = true})) ==
        "NAME KIND STATUS REPLICAS STEP EPOCH LOSS AGE RESTARTS SLOTS STARTED RUNTIME REASON "
        "PROGRAM DONE LEFT GOODPUT BATCH ");
}

TEST_CASE("a table that fits into 80 columns keeps what matters most") {
  const std::vector<JobRow> rows = {training_row()};
  for (const bool figures : {false, true}) {
    const auto columns = job_columns(rows, {.figures = figures, .width = 80});
    const std::string text = rows_table(rows, columns);
    CHECK(text.find('\n') <= 80);
    for (const char* head : {"NAME", "STATUS", "REPLICAS", "LOSS", "DONE", "LEFT"}) {
      CHECK(heads(columns).find(head) != std::string::npos);
    }
  }
  CHECK(heads(job_columns(rows, {.width = 1})) == "NAME STATUS REPLICAS LOSS DONE LEFT ");
}

TEST_CASE("ls --watch tells ends, and a second run of the same name") {
  ShownRows shown;
  launch::RunInfo run{
      "digits", true, {{"state", "training"}, {"started", "2026-01-01T00:00:00Z"}, {"step", 1}}};
  const auto row = [&] { return run_row(run, 0, false); };
  CHECK_FALSE(shown.has(row()));
  CHECK(shown.take(row()));
  CHECK(shown.has(row()));
  run.status["step"] = 2;
  CHECK_FALSE(shown.take(row()));
  run.status["started"] = "2026-01-01T00:05:00Z";
  CHECK(shown.take(row()));
  run.live = false;
  run.status["state"] = "finished";
  CHECK(shown.take(row()));
  CHECK_FALSE(shown.take(row()));

  JobView job;
  job.name = "digits";
  job.phase = "Pending";
  CHECK(shown.take(job_row(job, 0, false)));
  CHECK_FALSE(shown.take(job_row(job, 9, false)));
  job.submitted_s = 5;
  CHECK(shown.take(job_row(job, 9, false)));
}

TEST_CASE("what a phase means to who waits") {
  using Code = std::optional<ExitCode>;
  CHECK(outcome("Pending", WaitGoal::ended) == Code());
  CHECK(outcome("Running", WaitGoal::succeeded) == Code());
  CHECK(outcome("Running", WaitGoal::running) == Code(ExitCode::ok));
  CHECK(outcome("Succeeded", WaitGoal::running) == Code(ExitCode::ok));
  CHECK(outcome("Succeeded", WaitGoal::suspended) == Code(kJobFailed));
  CHECK(outcome("Failed", WaitGoal::succeeded) == Code(kJobFailed));
  CHECK(outcome("Failed", WaitGoal::ended) == Code(ExitCode::ok));
  CHECK(outcome("Cancelled", WaitGoal::succeeded) == Code(kJobCancelled));
  CHECK(outcome("Suspended", WaitGoal::suspended) == Code(ExitCode::ok));
}

TEST_CASE("YAML that reads back") {
  const Json value = {{"a", "text"},
                      {"b", "yes"},
                      {"c", ""},
                      {"d", "1.5"},
                      {"e", "a: b"},
                      {"f", "it's #1"},
                      {"g", "line\nnext"},
                      {"h", "-x"},
                      {"i", "2001-01-01"},
                      {"j", "Null"},
                      {"k", "\xc3\xa4"},
                      {"l", " x"},
                      {"list", {"p", {{"q", 1}, {"r", "s t"}}, Json::array({"u", "v"})}}};
  const std::string text = yaml_text(value);
  YamlMapping top(parse_yaml(text, "text"));
  for (const auto& [key, item] : value.items()) {
    INFO(text);
    if (item.is_string() && !item.get<std::string>().empty()) {
      CHECK(top.require(key).text() == item.get<std::string>());
    }
  }
  const std::vector<YamlNode> list = top.require("list").list();
  REQUIRE(list.size() == 3);
  CHECK(YamlMapping(list[1]).require("r").text() == "s t");
  CHECK(list[2].list()[1].text() == "v");
  CHECK(yaml_text({{"a", nullptr}, {"b", 2}}, false) == "b: 2\n");
  CHECK(yaml_text({{"a", {{"b", nullptr}}}, {"c", 1}}, false) == "c: 1\n");
  CHECK(yaml_text(Json::object()) == "{}\n");
}

TEST_CASE("YAML has no control characters, and reads back") {
  const std::string text = "a\x1b\x7f\xc2\x80\xc2\x9f\xc2\xa0z";
  const std::string shown = yaml_text({{"a", text}});
  CHECK(shown == "a: \"a\\u001b\\u007f\\u0080\\u009f\xc2\xa0z\"\n");
  CHECK(YamlMapping(parse_yaml(shown, "text")).require("a").text() == text);
}

}  // namespace
}  // namespace adaptdl::cli
