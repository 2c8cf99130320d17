#include "core/policy/sia/sia.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
#include "core/policy/perf_estimate.h"
#include "tests/unit/policy/random_snapshot.h"

namespace adaptdl::sia_test {
namespace {

// Scales perfectly; `speed` samples/s on one GPU.
PerfParams linear(double speed) {
  return {1e-8, 1 / speed, 1e-8, 1e-8, 1e-8, 1e-8, 1};
}

JobHints measured(int profiled) {
  JobHints hints;
  hints.perf = linear(100);
  hints.grad = GradParams{1e-3, 1000};
  hints.batch = BatchBounds{128, int64_t{128} * 64, 1, 256, true};
  hints.max_profiled_replicas = profiled;
  return hints;
}

Snapshot cluster(const std::vector<std::pair<std::string, int>>& nodes) {
  Snapshot snapshot;
  snapshot.resources = {"gpu"};
  for (const auto& [kind, gpus] : nodes) {
    snapshot.nodes.push_back({fmt::format("n{}", snapshot.nodes.size()), kind, {gpus}});
  }
  return snapshot;
}

JobSnapshot& add_job(Snapshot& snapshot, int profiled, const NodeList& nodes = {}) {
  JobSnapshot job;
  job.name = fmt::format("j{}", snapshot.jobs.size());
  job.age_s = 36000;
  job.max_replicas = 64;
  job.request = {1};
  job.nodes = nodes;
  if (profiled > 0) job.hints = measured(profiled);
  snapshot.jobs.push_back(job);
  return snapshot.jobs.back();
}

Decision decide(const Snapshot& snapshot) {
  return make_policy("sia")->decide(snapshot, 0, {});
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("answers are feasible for clusters and jobs of all sorts, without interference") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Draw draw(seed);
    SnapshotShape shape;
    shape.nodes = draw.integer(1, 20);
    shape.jobs = draw.integer(0, 40);
    shape.gpus = draw.chance(0.5) ? std::vector<int>{4} : std::vector<int>{1, 3, 4, 6, 8};
    if (draw.chance(0.5)) shape.accelerators = {"a", "b", "c"};
    shape.cores = draw.chance(0.5);
    shape.wide = draw.chance(0.5);
    shape.pinned = draw.chance(0.5) ? 0.4 : 0;
    shape.hintless = draw.chance(0.5) ? 0.4 : 0;
    const Snapshot snapshot = random_snapshot(seed, shape);
    const Decision decision = decide(snapshot), again = decide(snapshot);
    INFO("seed " << seed);
    REQUIRE(decision.jobs.size() == snapshot.jobs.size());
    std::vector<NodeList> allocation;
    for (size_t j = 0; j < decision.jobs.size(); ++j) {
      allocation.push_back(decision.jobs[j].nodes);
      CHECK_FALSE(decision.jobs[j].why.empty());
      CHECK(decision.jobs[j].nodes == again.jobs[j].nodes);
      CHECK(decision.jobs[j].why == again.jobs[j].why);
    }
    CHECK(broken_rule(snapshot, allocation, true).value_or("") == "");
    CHECK_FALSE(decision.cut_short);
  }
}

TEST_CASE("what was decided is kept when nothing has changed") {
  int checked = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SnapshotShape shape;
    shape.jobs = 12;
    shape.accelerators = {"a", "b"};
    Snapshot snapshot = random_snapshot(seed, shape);
    const Decision first = decide(snapshot);
    bool all = true;
    for (size_t j = 0; j < snapshot.jobs.size(); ++j) {
      snapshot.jobs[j].nodes = first.jobs[j].nodes;
      all = all && !first.jobs[j].nodes.empty();
    }
    if (!all) continue;
    ++checked;
    const Decision second = decide(snapshot);
    for (size_t j = 0; j < snapshot.jobs.size(); ++j) {
      CHECK(second.jobs[j].nodes == first.jobs[j].nodes);
      CHECK(contains(second.jobs[j].why, "it keeps "));
    }
  }
  CHECK(checked > 10);
}

TEST_CASE("new jobs start on one GPU each, and wait for their turn when there are too many") {
  Snapshot snapshot = cluster({{"", 2}});
  for (int j = 0; j < 3; ++j) add_job(snapshot, 0);
  const Decision decision = decide(snapshot);
  CHECK(decision.jobs[0].nodes == NodeList{0});
  CHECK(decision.jobs[1].nodes == NodeList{0});
  CHECK(decision.jobs[2].nodes.empty());
  CHECK(decision.objective == doctest::Approx(3.1));
  CHECK(decision.jobs[0].why == "it starts with 1 replica on 1 node");
  CHECK(decision.jobs[2].why == "it waits because other jobs gain more from the GPUs");
}

TEST_CASE("a job grows to twice what it has measured, and shrinks for others") {
  Snapshot snapshot = cluster({{"", 4}, {"", 4}});
  add_job(snapshot, 2, {0});
  CHECK(decide(snapshot).jobs[0].nodes.size() == 4);
  snapshot.jobs[0].hints.max_profiled_replicas = 4;
  CHECK(decide(snapshot).jobs[0].nodes.size() == 8);
  snapshot.jobs[0].nodes = decide(snapshot).jobs[0].nodes;
  add_job(snapshot, 4);
  const Decision shared = decide(snapshot);
  CHECK(shared.jobs[0].nodes.size() == 4);
  CHECK(shared.jobs[1].nodes.size() == 4);
  CHECK(contains(shared.jobs[0].why, "it changes to 4 replicas on 1 node"));
}

TEST_CASE("each job runs on the kind that it is better on") {
  Snapshot snapshot = cluster({{"a", 4}, {"b", 4}});
  for (int j = 0; j < 2; ++j) {
    JobHints& hints = add_job(snapshot, 2).hints;
    hints.kinds["a"].perf = linear(j == 0 ? 100 : 300);
    hints.kinds["b"].perf = linear(j == 0 ? 300 : 100);
  }
  const Decision decision = decide(snapshot);
  CHECK(decision.jobs[0].nodes == NodeList{1, 1, 1, 1});
  CHECK(decision.jobs[1].nodes == NodeList{0, 0, 0, 0});
  CHECK(contains(decision.jobs[1].why, "4 replicas on 1 a node"));
}

TEST_CASE("a kind that a job has not measured is as much faster as others found it") {
  Snapshot snapshot = cluster({{"a", 4}, {"b", 4}});
  for (const double speed : {200, 300, 5000}) {
    JobHints& hints = add_job(snapshot, 2).hints;
    hints.kinds["a"].perf = linear(100);
    hints.kinds["b"].perf = linear(speed);
  }
  JobHints& hints = add_job(snapshot, 2).hints;
  hints.kinds["a"].perf = linear(50);
  const PerfEstimate estimate(snapshot, {"a", "b"});
  const auto on = [&](size_t job, size_t kind) {
    return 1 / estimate.on(snapshot.jobs[job].hints, kind)->beta_c;
  };
  CHECK(on(0, 1) == doctest::Approx(200));
  CHECK(on(3, 0) == doctest::Approx(50));
  CHECK(on(3, 1) == doctest::Approx(150));
  hints = JobHints{};
  CHECK_FALSE(estimate.on(hints, 0));
  CHECK(estimate.table(hints, 0).at(1, 1) == 1);
  CHECK(estimate.table(hints, 1).at(1, 1) == doctest::Approx(3));
  hints.perf = linear(7);
  CHECK(estimate.on(hints, 1) == linear(7));
}

TEST_CASE("a job that is not preemptible keeps its nodes") {
  Snapshot snapshot = cluster({{"", 4}, {"", 4}});
  add_job(snapshot, 8, {1, 0, 1}).preemptible = false;
  add_job(snapshot, 4);
  const Decision decision = decide(snapshot);
  CHECK(decision.jobs[0].nodes == NodeList{1, 0, 1});
  CHECK(decision.jobs[0].why == "it keeps its allocation because it is not preemptible");
  CHECK(decision.jobs[1].nodes == NodeList{1, 1});
}

TEST_CASE("an allocation that Sia would not have made is kept while a change is not worth it") {
  Snapshot snapshot = cluster({{"", 4}});
  JobSnapshot& job = add_job(snapshot, 4, {0, 0, 0});
  job.age_s = 100;
  job.restarts = 2;
  CHECK(decide(snapshot).jobs[0].nodes == NodeList{0, 0, 0});
  snapshot.jobs[0].age_s = 100000;
  CHECK(decide(snapshot).jobs[0].nodes == NodeList{0, 0, 0, 0});
}

TEST_CASE("bounds that are no power of two can be met") {
  Snapshot snapshot = cluster({{"", 4}, {"", 4}});
  JobSnapshot& job = add_job(snapshot, 1);
  job.min_replicas = job.max_replicas = 5;
  CHECK(decide(snapshot).jobs[0].nodes == NodeList{0, 0, 0, 1, 1});
  snapshot.jobs[0].min_replicas = snapshot.jobs[0].max_replicas = 9;
  const Decision decision = decide(snapshot);
  CHECK(decision.jobs[0].nodes.empty());
  CHECK(decision.jobs[0].why == "it waits because the nodes cannot hold 9 of its replicas");
  snapshot.jobs[0].request[0] = 5;
  CHECK(decide(snapshot).jobs[0].why ==
        "it waits because the nodes cannot hold 9 of its replicas; no node has enough " +
            snapshot.resources[0] + " for one of them");
}

TEST_CASE("a job that needs more than whole nodes have gets nodes that differ by a GPU") {
  Snapshot snapshot = cluster({{"", 8}, {"", 7}});
  JobSnapshot& job = add_job(snapshot, 1);
  job.min_replicas = 10;
  job.max_replicas = 12;
  CHECK(decide(snapshot).jobs[0].nodes == NodeList{0, 0, 0, 0, 0, 1, 1, 1, 1, 1});
  snapshot.jobs[0].min_replicas = snapshot.jobs[0].max_replicas = 15;
  CHECK(decide(snapshot).jobs[0].why ==
        "it waits because the nodes cannot hold 15 of its replicas in equal shares");
}

TEST_CASE("a job that needs several nodes runs beside jobs that stay") {
  Snapshot snapshot = cluster({{"", 4}, {"", 4}, {"", 4}});
  for (const int node : {0, 1, 2}) add_job(snapshot, 1, {node}).preemptible = false;
  JobSnapshot& job = add_job(snapshot, 1);
  job.min_replicas = job.max_replicas = 6;
  CHECK(decide(snapshot).jobs[3].nodes.size() == 6);
}

TEST_CASE("what fits by GPUs but not by cores is given the next best") {
  Snapshot snapshot = cluster({{"", 4}, {"", 4}});
  snapshot.resources.push_back("cores");
  for (auto& node : snapshot.nodes) node.capacity.push_back(8);
  for (int j = 0; j < 4; ++j) add_job(snapshot, 1).request = {1, 3};
  const Decision decision = decide(snapshot);
  std::vector<NodeList> allocation;
  size_t placed = 0;
  for (const auto& job : decision.jobs) {
    allocation.push_back(job.nodes);
    placed += job.nodes.size();
  }
  CHECK(broken_rule(snapshot, allocation, true).value_or("") == "");
  CHECK(placed == 4);
}

TEST_CASE("options are checked, and lambda = 0 leaves everybody idle") {
  CHECK_THROWS_AS(make_policy("sia", {{"p", 0}}), Error);
  CHECK_THROWS_AS(make_policy("sia", {{"lambda", -1}}), Error);
  Snapshot snapshot = cluster({{"", 4}});
  add_job(snapshot, 1);
  CHECK(make_policy("sia", {{"lambda", 0}})->decide(snapshot, 0, {}).jobs[0].nodes.empty());
}

TEST_CASE("a deadline that is over still gives a feasible answer") {
  SnapshotShape shape;
  shape.nodes = 40;
  shape.jobs = 120;
  shape.accelerators = {"a", "b", "c"};
  const Snapshot snapshot = random_snapshot(4, shape);
  SearchBudget budget;
  budget.deadline = Monotonic::now();
  const Decision decision = make_policy("sia")->decide(snapshot, 0, budget);
  std::vector<NodeList> allocation;
  for (const auto& job : decision.jobs) allocation.push_back(job.nodes);
  CHECK(broken_rule(snapshot, allocation, true).value_or("") == "");
  CHECK(decision.cut_short);
}

TEST_CASE("no nodes, no jobs") {
  CHECK(decide(cluster({})).jobs.empty());
  Snapshot snapshot = cluster({});
  add_job(snapshot, 1);
  CHECK(decide(snapshot).jobs[0].nodes.empty());
}

}  // namespace
}  // namespace adaptdl::sia_test
