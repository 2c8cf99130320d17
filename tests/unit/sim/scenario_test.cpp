#include "core/sim/scenario/scenario.h"

#include <doctest/doctest.h>

#include "core/base/files.h"
#include "core/sim/scenario/scenario_checks.h"
#include "core/sim/scenario/scenario_faults.h"
#include "core/sim/scenario/scenario_run.h"
#include "tests/unit/base/expect_error.h"

namespace scenario_test {

using namespace adaptdl;

namespace {

const std::string kProfile =
    "profiles:\n"
    "  sample:\n"
    "    placements:\n"
    "      - {gpus: [1], atomic: 10, step_s: 0.1, sync_s: 0}\n"
    "      - {gpus: [1], atomic: 20, step_s: 0.2, sync_s: 0}\n"
    "      - {gpus: [2], atomic: 10, step_s: 0.15, sync_s: 0.05}\n"
    "      - {gpus: [2], atomic: 20, step_s: 0.25, sync_s: 0.05}\n"
    "      - {gpus: [1, 1], atomic: 10, step_s: 0.2, sync_s: 0.1}\n"
    "      - {gpus: [1, 1], atomic: 20, step_s: 0.3, sync_s: 0.1}\n"
    "    validation:\n"
    "      - {batch: 20, epochs: [{progress: 900, iterations: 900, grad_sqr: 4, grad_var: 8}]}\n"
    "      - {batch: 40, epochs: [{progress: 900, iterations: 600, grad_sqr: 4, grad_var: 8}]}\n";
const std::string kSetting =
    "about: For this test.\n"
    "nodes: [{count: 2, gpus: 2}]\n"
    "jobs:\n"
    "  - {name: a, application: sample, submitted_s: 0, replicas: 1, batch_size: 20}\n"
    "  - {name: stays, application: sample, submitted_s: 0, replicas: 1, batch_size: 20,"
    " preemptible: false}\n" +
    kProfile;

Scenario read(const std::string& rest) {
  const TemporaryDirectory folder;
  write_file_atomic(folder.file("s.yaml"), kSetting + rest);
  return read_scenario(folder.file("s.yaml"));
}

// What the checks say about events that a test makes up.
class Checked {
 public:
  explicit Checked(const std::string& rest, bool avoids_interference = false)
      : scenario_(read(rest)),
        cluster_(scenario_.nodes, scenario_.workload, scenario_.profiles, {}),
        checks_(scenario_, cluster_, "fixed", avoids_interference) {
    cluster_.on_event = [this](const TimelineEvent& event) { checks_.on_event(event); };
    cluster_.advance_to(60);
  }

  SimCluster& cluster() { return cluster_; }
  void end(const std::vector<std::string>& problems = {}) {
    std::vector<JobResult> jobs(2);
    jobs[0] = {.name = "a", .completed_s = 600, .jct_s = 600, .restarts = 3};
    jobs[1] = {.name = "stays", .completed_s = 600, .jct_s = 600};
    checks_.at_end(jobs, problems);
  }
  std::string said() {
    checks_.after_round();
    return fmt::format("{}", fmt::join(checks_.violations(), "; "));
  }

 private:
  Scenario scenario_;
  SimCluster cluster_;
  ScenarioChecks checks_;
};

}  // namespace

TEST_CASE("a scenario is read with its faults and properties") {
  const Scenario scenario = read(
      "policies: {pollux: {fairness: 0}, fixed: }\n"
      "seeds: 7\n"
      "event_gap_s: 5\n"
      "faults:\n"
      "  - {kind: spot_notice, node: node-1, at: 1m, by: 2m, until: 1h}\n"
      "  - {kind: clock_jump, by: -2h}\n"
      "must: {longest_wait: 5m, max_restarts: {fixed: 0}, unfinished: [a]}\n");
  CHECK(scenario.about == "For this test.");
  CHECK(scenario.nodes.size() == 2);
  CHECK(scenario.profiles.at("sample").max_replicas() == 2);
  REQUIRE(scenario.policies.size() == 2);
  CHECK(scenario.policies[0].second.at("fairness") == 0);
  CHECK(scenario.seeds == 7);
  CHECK(scenario.rounds.event_gap_s == 5);
  REQUIRE(scenario.faults.size() == 2);
  CHECK(scenario.faults[0].by_s == 120);
  CHECK(scenario.faults[0].until_s == 3600);
  CHECK(scenario.faults[1].by_s == -7200);
  CHECK(scenario.longest_wait_s.at("") == 300);
  CHECK(scenario.max_restarts.at("fixed") == 0);
  CHECK(read("").policies.size() == policies().size());
}

TEST_CASE("mistakes in a scenario are named with their line") {
  CHECK_ERROR(read("faults: [{kind: node_loss, node: node-7}]"), "unknown node node-7");
  CHECK_ERROR(read("faults: [{kind: earthquake}]"), "faults.0.kind");
  CHECK_ERROR(read("faults: [{kind: late_hints}]"), "faults.0.by");
  CHECK_ERROR(read("faults: [{kind: late_hints, by: -1m}]"), "faults.0.by");
  CHECK_ERROR(read("faults: [{kind: node_loss, node: node-1, at: 5, until: 5}]"),
              "the fault ends before it starts");
  CHECK_ERROR(read("faults: [{kind: lost_hints, probability: 2}]"), "faults.0.probability");
  CHECK_ERROR(read("policies: {luck: }"), "unknown policy luck");
  CHECK_ERROR(read("must: {unfinished: [nobody]}"), "unknown job nobody");
  CHECK_ERROR(read("must: {max_restarts: {luck: 3}}"), "must.max_restarts.luck");
  CHECK_ERROR(read("surprise: 1"), "s.yaml:");
}

TEST_CASE("checks find what must not be") {
  SUBCASE("nothing wrong") {
    Checked checked("");
    checked.cluster().allocate("a", {"node-0", "node-0"}, "");
    checked.end();
    CHECK(checked.said() == "");
  }
  SUBCASE("too much on a node") {
    Checked checked("");
    checked.cluster().allocate("a", {"node-0", "node-0"}, "");
    checked.cluster().allocate("stays", {"node-0"}, "");
    CHECK(checked.said() == "60 s: node node-0 runs 3 replicas on 2 GPUs");
  }
  SUBCASE("more replicas than allowed") {
    Checked checked("");
    checked.cluster().allocate("a", {"node-0", "node-0", "node-1"}, "");
    CHECK(checked.said() == "60 s: job a has 3 replicas; 0 to 2 are allowed");
  }
  SUBCASE("a pinned job that moves") {
    Checked checked("");
    checked.cluster().allocate("stays", {"node-0"}, "");
    checked.cluster().allocate("stays", {"node-1"}, "");
    CHECK(contains(checked.said(), "job stays loses its nodes"));
  }
  SUBCASE("a pinned job may leave a node that is about to go") {
    Checked checked("");
    checked.cluster().allocate("stays", {"node-0"}, "");
    checked.cluster().notice_node("node-0");
    checked.cluster().allocate("stays", {"node-1"}, "");
    CHECK(checked.said() == "");
  }
  SUBCASE("distributed jobs that share a node") {
    Checked checked("", true);
    checked.cluster().allocate("a", {"node-0", "node-1"}, "");
    checked.cluster().allocate("stays", {"node-0", "node-1"}, "");
    CHECK(contains(checked.said(), "distributed jobs a and stays share node node-0"));
  }
  SUBCASE("a long wait") {
    Checked checked("must: {longest_wait: 1m}");
    checked.cluster().allocate("stays", {"node-0"}, "");
    checked.cluster().advance_to(90);
    checked.cluster().allocate("a", {"node-0"}, "");
    CHECK(checked.said() == "90 s: job a has waited for 1 m 30 s; the limit is 1 m 00 s");
  }
  SUBCASE("figures beyond their limits") {
    Checked checked("must: {mean_jct: 9m, max_restarts: {fixed: 2}, unfinished: [stays]}");
    checked.end();
    CHECK(contains(checked.said(), "job a was restarted 3 times; the limit is 2"));
    CHECK(contains(checked.said(), "the mean completion time is 10 m 00 s"));
    CHECK(contains(checked.said(), "job stays has finished, but it must not"));
  }
  SUBCASE("complaints, and complaints that do not come") {
    Checked checked("must: {expect_problems: [job a]}");
    checked.end({"job b: oh"});
    CHECK(contains(checked.said(), "a round reports a problem: job b: oh"));
    CHECK(contains(checked.said(), "no round reports the problem 'job a'"));
  }
}

TEST_CASE("broken hints are refused, extreme ones are not") {
  Rng rng(3);
  const Scenario scenario = read("");
  SimJob job(scenario.profiles.at("sample"), 0);
  job.place({0}, 0);
  job.advance(10, 0);
  for (int i = 0; i < 100; ++i) {
    JobHints broken = job.hints(), extreme = job.hints(), none;
    break_hints(broken, rng);
    CHECK_ERROR(check_hints(broken, "a"), "job a");
    exaggerate_hints(extreme, rng);
    CHECK_NOTHROW(check_hints(extreme, "a"));
    break_hints(none, rng);
    CHECK_ERROR(check_hints(none, "a"), "job a");
  }
}

TEST_CASE("runs of one seed are the same, of another not") {
  const Scenario scenario = read("jitter_s: 300\nseeds: 2\nfaults: [{kind: lost_hints}]");
  const ScenarioOutcome one = run_scenario(scenario, "pollux", 1);
  CHECK(one.violations.empty());
  CHECK(one.summary.completed == 2);
  CHECK(run_scenario(scenario, "pollux", 1).hash == one.hash);
  CHECK(run_scenario(scenario, "pollux", 2).hash != one.hash);
}

TEST_CASE("late hints arrive when they are due") {
  const Scenario scenario = read("faults: [{kind: late_hints, jobs: a, by: 2m}]");
  SimCluster cluster(scenario.nodes, scenario.workload, scenario.profiles, {});
  const auto policy = make_policy("fixed");
  Simulation simulation(cluster, *policy, {});
  Rng rng(1);
  const ScenarioFaults faults(scenario.faults, cluster, simulation, rng);
  std::map<double, bool> known;  // by time: whether a scheduler knows a's speed
  cluster.distort = [&, late = cluster.distort](ClusterJob& job) {
    late(job);
    if (job.name == "a") known[cluster.now_s()] = job.hints.perf.has_value();
  };
  while (simulation.step()) {
  }
  // It starts at 60 s and first tells something at 120 s.
  CHECK_FALSE(known.at(120));
  CHECK_FALSE(known.at(180));
  CHECK(known.at(240));
}

}  // namespace scenario_test
