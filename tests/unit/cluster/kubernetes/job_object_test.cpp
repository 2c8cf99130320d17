#include "core/cluster/kubernetes/jobs/job_object.h"

#include <doctest/doctest.h>

#include "tests/unit/cluster/kubernetes/sample_objects.h"

using namespace adaptdl;
using namespace adaptdl::kubernetes;

TEST_CASE("a job of AdaptDL's is read") {
  std::string problem;
  const JobObject job = read_job(
      sample_job(Json::parse(R"({"minReplicas": 1, "maxReplicas": 4})"),
                 Json::parse(R"({"phase": "Running", "group": 3, "allocation": ["n1", "n2"],
                                 "replicas": 2, "readyReplicas": 2,
                                 "train": {"initBatchSize": 128},
                                 "conditions": [{"type": "Ready", "status": "True"}, "odd"]})")),
      problem);
  CHECK(problem.empty());
  CHECK(job.id() == "team-a/digits");
  CHECK(job.created_s == 1769846400);
  CHECK(job.min_replicas == 1);
  CHECK(job.max_replicas == 4);
  CHECK(job.preemptible);
  CHECK_FALSE(job.deleting);
  CHECK(job.status.group == 3);
  CHECK(job.status.allocation == std::vector<std::string>{"n1", "n2"});
  CHECK(job.status.train["initBatchSize"] == 128);
  REQUIRE(job.status.conditions.size() == 1);
  CHECK(job.status.conditions[0].is);
}

TEST_CASE("what others wrote into a job does no harm") {
  const auto problem = [](const char* spec) {
    std::string said;
    read_job(sample_job(Json::parse(spec)), said);
    return said;
  };
  CHECK(problem(R"({"minReplicas": -1})") == "spec.minReplicas: -1 must be from 0 to 1000000");
  CHECK(problem(R"({"minReplicas": 3, "maxReplicas": 2})") ==
        "spec.maxReplicas: 2 is less than minReplicas, 3");
  CHECK(problem(R"({"preemptible": "yes"})").find("preemptible") != std::string::npos);
  CHECK(problem(R"({"maxReplicas": 1e30})").find("maxReplicas") != std::string::npos);

  const JobObject odd =
      read_sample(Json::object(), Json::parse(R"({"phase": 3, "group": "x", "allocation": [1, 2],
                                      "train": "none", "conditions": 5,
                                      "completionTimestamp": "yesterday"})"));
  CHECK(odd.status == JobStatus());

  std::string said;
  CHECK_THROWS_AS(read_job(Json::object(), said), Error);
  CHECK_THROWS_AS(read_job(Json(), said), Error);
}

TEST_CASE("numbers in a status that no operator writes count as absent") {
  const auto status = [](const char* text) {
    return read_sample(Json::object(), Json::parse(text)).status;
  };
  // One more failure would overflow, and the job would never reach its limit.
  CHECK(status(R"({"failures": 2147483647})").failures == 0);
  CHECK(status(R"({"failures": -2147483648})").failures == 0);
  CHECK(status(R"({"failures": 7, "rescales": 1000000000})").failures == 7);
  CHECK(status(R"({"rescales": 2147483647})").rescales == 0);
  CHECK(status(R"({"replicas": -1})").replicas == 0);
  CHECK_FALSE(status(R"({"group": 9223372036854775807})").group);
  CHECK_FALSE(status(R"({"group": -1})").group);
  CHECK(status(R"({"group": 12})").group == 12);
}

TEST_CASE("a job is restartable if its spec says so, or else if it has shown it") {
  const Json shown = Json::parse(R"({"restartable": true})");
  const auto spec = [](bool value) { return Json{{"restartable", value}}; };
  CHECK_FALSE(read_sample().can_restart());
  CHECK(read_sample(spec(true)).can_restart());
  CHECK(read_sample(Json::object(), shown).can_restart());
  CHECK_FALSE(read_sample(spec(false), shown).can_restart());
  CHECK(status_patch(JobStatus(), read_sample(Json::object(), shown).status) == shown);
}

TEST_CASE("what the allocator is told of") {
  JobObject before = read_sample();
  before.status.phase = "Running";
  before.status.allocation = {"n1"};
  const auto told = [&](const auto& change) {
    JobObject now = before;
    change(now);
    return concerns_allocator(before, now);
  };
  CHECK_FALSE(told([](JobObject& job) { job.status.allocation = {"n2"}; }));
  CHECK_FALSE(told([](JobObject& job) { job.status.phase = "Stopping"; }));
  CHECK_FALSE(told([](JobObject& job) { job.status.train = {{"maxProfiledReplicas", "many"}}; }));
  CHECK(told([](JobObject& job) { job.generation = 3; }));
  CHECK(told([](JobObject& job) { job.deleting = true; }));
  CHECK(told([](JobObject& job) { job.status.phase = "Failed"; }));
  CHECK(told([](JobObject& job) { job.status.allocation.clear(); }));
  before.status.train = {{"maxProfiledReplicas", 2}};
  CHECK_FALSE(told([](JobObject& job) { job.status.train["maxProfiledReplicas"] = 1; }));
  CHECK(told([](JobObject& job) { job.status.train["maxProfiledReplicas"] = 3; }));
}

TEST_CASE("a status is written as its differences") {
  const Json before = Json::parse(R"({"phase": "Pending", "reason": "Waiting", "other": 1})");
  const JobObject job = read_sample(Json::object(), before);
  JobStatus after = job.status;
  CHECK(status_patch(job.status, after).is_null());
  after.phase = "Starting";
  after.reason.clear();
  after.group = 0;
  after.allocation = {"n1"};
  after.group_started_s = 1769846400.5;
  after.launchers = {3, 2};
  after.leads = GroupLeader{0, 2};
  after.launcher_lost_s = 1769846401;
  CHECK(status_patch(job.status, after) ==
        Json::parse(R"({"phase": "Starting", "reason": null, "group": 0, "allocation": ["n1"],
                        "groupStartTime": "2026-01-31T08:00:00.500Z", "launchers": [3, 2],
                        "launcherLost": "2026-01-31T08:00:01.000Z",
                        "leads": {"group": 0, "rank": 2}})"));
  Json merged = sample_job(Json::object(), before);
  merged["status"].merge_patch(status_patch(job.status, after));
  std::string problem;
  CHECK(read_job(merged, problem).status == after);
  CHECK(merged["status"]["other"] == 1);
}

TEST_CASE("a condition's time is that of its last change") {
  JobStatus status;
  set_condition(status, "Ready", false, "Pending", "", 100);
  const std::string since = status.conditions[0].since;
  set_condition(status, "Ready", false, "Starting", "soon", 200);
  CHECK(status.conditions[0].since == since);
  CHECK(status.conditions[0].message == "soon");
  set_condition(status, "Ready", true, "Running", "", 300);
  CHECK(status.conditions[0].since == "1970-01-01T00:05:00.000Z");
  CHECK(status.conditions.size() == 1);
}
