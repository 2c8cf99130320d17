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
  job.status = nullptr;
  CHECK(job_row(job, 1070, true).replicas == "2");
  job.ended_s = 1020;
  CHECK(job_row(job, 1070, true).replicas == "-");
  CHECK(job_row(job, 1070, true).runtime == "10s");
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

}  // namespace
}  // namespace adaptdl::cli
