#include "core/cluster/kubernetes/metrics.h"

#include <doctest/doctest.h>

#include "tests/unit/cluster/kubernetes/sample_objects.h"

using namespace adaptdl;
using namespace adaptdl::kubernetes;

TEST_CASE("series of a job, and of none that has ended") {
  const JobObject running = read_sample(
      Json::object(),
      Json::parse(R"({"phase": "Running", "allocation": ["n1", "n2"], "readyReplicas": 2,
                      "train": {"initBatchSize": 128, "localBszBounds": [32, 256],
                                "maxBatchSize": 512, "globalBatchSize": 256,
                                "trainMetrics": {"loss": 0.25, "localBatch": 128},
                                "gradParams": {"norm": 0.04, "var": 0.5},
                                "perfParams": {"alpha_c": 0.1, "beta_c": 0.001, "alpha_n": 0.01,
                                               "beta_n": 0.01, "alpha_r": 0.01, "beta_r": 0.01,
                                               "gamma": 1.5}}})"));
  JobObject waiting = read_sample(
      Json::object(), Json::parse(R"({"phase": "Pending", "reason": "Unschedulable"})"));
  waiting.name = "waits";
  JobObject ended = read_sample(
      Json::object(),
      Json::parse(R"({"phase": "Succeeded", "completionTimestamp": "2026-01-31T08:01:00Z"})"));
  ended.name = "ended";
  const std::string text =
      metrics_text({{running, ""}, {waiting, ""}, {ended, ""}},
                   {.rounds = 3, .requests = {{{"PATCH", 409}, 2}, {{"GET", 0}, 1}}}, true, false);
  const auto has = [&](const char* line) {
    INFO(line);
    CHECK(("\n" + text).find("\n" + std::string(line)) != std::string::npos);
  };
  has("adaptdl_job_replicas{namespace=\"team-a\",job=\"digits\"} 2\n");
  has("adaptdl_job_batch_size{namespace=\"team-a\",job=\"digits\"} 256\n");
  has("adaptdl_job_goodput{namespace=\"team-a\",job=\"digits\"} ");
  has("adaptdl_job_goodput_predicted{namespace=\"team-a\",job=\"digits\",replicas=\"16\"} ");
  has("adaptdl_job_throughput_predicted{namespace=\"team-a\",job=\"digits\",replicas=\"2\"} ");
  has("adaptdl_job_train_metric{namespace=\"team-a\",job=\"digits\",metric=\"loss\"} 0.25\n");
  has("adaptdl_job_train_metric{namespace=\"team-a\",job=\"digits\",metric=\"localBatch\"} 128\n");
  has("adaptdl_job_waiting{namespace=\"team-a\",job=\"waits\",reason=\"Unschedulable\"} 1\n");
  has("adaptdl_jobs{phase=\"Succeeded\"} 1\n");
  has("adaptdl_sched_job_submission_count_total 3\n");
  has("adaptdl_sched_job_completion_time_sum{status=\"Succeeded\"} 60\n");
  has("adaptdl_allocator_rounds_total 3\n");
  has("rest_client_requests_total{method=\"PATCH\",code=\"409\"} 2\n");
  has("rest_client_requests_total{method=\"GET\",code=\"<error>\"} 1\n");
  has("adaptdl_leader 1\n");
  has("adaptdl_watches_up 0\n");
  CHECK(text.find("job=\"ended\"") == std::string::npos);
}

TEST_CASE("labels are escaped") {
  CHECK(escaped_label("a\"b\\c\nd") == "a\\\"b\\\\c\\nd");
}
