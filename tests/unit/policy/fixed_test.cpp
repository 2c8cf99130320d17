#include "core/policy/fixed.h"

#include <doctest/doctest.h>

#include "tests/unit/policy/random_snapshot.h"

namespace adaptdl {
namespace {

Snapshot cluster(const std::vector<std::pair<std::string, int>>& nodes) {
  Snapshot snapshot;
  snapshot.resources = {"gpu"};
  for (const auto& [kind, gpus] : nodes) {
    snapshot.nodes.push_back({fmt::format("n{}", snapshot.nodes.size()), kind, {gpus}});
  }
  return snapshot;
}

JobSnapshot& add_job(Snapshot& snapshot, int wanted, double age_s = 0, const NodeList& nodes = {}) {
  JobSnapshot job;
  job.name = fmt::format("j{}", snapshot.jobs.size());
  job.age_s = age_s;
  job.max_replicas = 64;
  job.requested_replicas = wanted;
  job.request = {1};
  job.nodes = nodes;
  snapshot.jobs.push_back(job);
  return snapshot.jobs.back();
}

Decision decide(const Snapshot& snapshot, const std::map<std::string, double>& options = {}) {
  return make_policy("fixed", options)->decide(snapshot, 0, {});
}

TEST_CASE("fixed: feasible for clusters and jobs of all sorts, and nobody who runs is moved") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Draw draw(seed);
    SnapshotShape shape;
    shape.nodes = draw.integer(1, 20);
    shape.jobs = draw.integer(0, 40);
    shape.gpus = {1, 3, 4, 8};
    if (draw.chance(0.5)) shape.accelerators = {"a", "b"};
    shape.cores = draw.chance(0.5);
    shape.wide = draw.chance(0.5);
    shape.pinned = 0.3;
    const Snapshot snapshot = random_snapshot(seed, shape);
    for (const double backfill : {0, 1}) {
      const Decision decision = decide(snapshot, {{"backfill", backfill}});
      std::vector<NodeList> allocation;
      for (size_t j = 0; j < decision.jobs.size(); ++j) {
        INFO("seed " << seed << ", job " << j);
        const JobSnapshot& job = snapshot.jobs[j];
        const NodeList& nodes = decision.jobs[j].nodes;
        allocation.push_back(nodes);
        CHECK_FALSE(decision.jobs[j].why.empty());
        if (!job.nodes.empty()) {
          CHECK(nodes == job.nodes);
        } else if (!nodes.empty()) {
          const int least = std::max(job.min_replicas, 1);
          CHECK(static_cast<int>(nodes.size()) == std::max(job.requested_replicas, least));
        }
      }
      CHECK(broken_rule(snapshot, allocation, false).value_or("") == "");
    }
  }
}

TEST_CASE("fixed: on a node that has less than before, who must stay stays") {
  Snapshot snapshot = cluster({{"", 7}, {"", 8}});
  add_job(snapshot, 4, 100, {0, 0, 0, 0});
  add_job(snapshot, 4, 50, {0, 0, 0, 0}).preemptible = false;
  const Decision decision = decide(snapshot);
  CHECK(decision.jobs[0].nodes == NodeList{1, 1, 1, 1});
  CHECK(decision.jobs[1].nodes == NodeList{0, 0, 0, 0});
}

TEST_CASE("fixed: requests are brought within a job's bounds") {
  Snapshot snapshot = cluster({{"", 8}});
  add_job(snapshot, 1).min_replicas = 2;
  add_job(snapshot, 9).max_replicas = 3;
  const Decision decision = decide(snapshot);
  CHECK(decision.jobs[0].nodes.size() == 2);
  CHECK(decision.jobs[1].nodes.size() == 3);
  CHECK(decision.objective == 5);
}

TEST_CASE("fixed: the fewest nodes, and of these the fullest") {
  Snapshot snapshot = cluster({{"", 4}, {"", 4}, {"", 4}, {"", 4}});
  add_job(snapshot, 2, 0, {1, 1});
  add_job(snapshot, 3, 0, {2, 2, 2});
  add_job(snapshot, 1);
  add_job(snapshot, 6);
  const Decision decision = decide(snapshot);
  CHECK(decision.jobs[2].nodes == NodeList{2});
  CHECK(decision.jobs[3].nodes == NodeList{0, 0, 0, 0, 1, 1});
  CHECK(decision.jobs[3].why == "it starts with 6 replicas on 2 nodes");
}

TEST_CASE("fixed: the kind that takes fewer nodes") {
  Snapshot snapshot = cluster({{"a", 4}, {"a", 4}, {"b", 8}});
  add_job(snapshot, 8);
  CHECK(decide(snapshot).jobs[0].nodes == NodeList(8, 2));
  add_job(snapshot, 5);
  CHECK(decide(snapshot).jobs[1].nodes == NodeList{0, 0, 0, 0, 1});
}

TEST_CASE("fixed: small jobs overtake a large one until that has waited too long") {
  Snapshot snapshot = cluster({{"", 4}, {"", 4}});
  add_job(snapshot, 4, 5000, {0, 0, 0, 0});
  add_job(snapshot, 8, 3500);
  add_job(snapshot, 2, 10);
  Decision decision = decide(snapshot);
  CHECK(decision.jobs[1].why ==
        "it waits for 8 replicas, of which 4 fit now; no job is ahead of it");
  CHECK(decision.jobs[2].nodes == NodeList{1, 1});
  CHECK(decision.jobs[2].why ==
        "it starts with 2 replicas on 1 node, before 1 job that does not fit yet");

  CHECK(decide(snapshot, {{"backfill", 0}}).jobs[2].nodes.empty());
  snapshot.jobs[1].age_s = 3600;
  decision = decide(snapshot);
  CHECK(decision.jobs[2].nodes.empty());
  CHECK(decision.jobs[2].why ==
        "it waits for 2 replicas, of which 2 fit now; 1 job is ahead of it, and nodes are "
        "reserved for j1");
  CHECK(decide(snapshot, {{"patience", 4000}}).jobs[2].nodes.size() == 2);
}

TEST_CASE("fixed: a job holds up only those who would use its nodes") {
  Snapshot snapshot = cluster({{"a", 4}, {"a", 4}, {"b", 1}});
  add_job(snapshot, 4, 9000, {0, 0, 0, 0});
  add_job(snapshot, 8, 9000);
  add_job(snapshot, 1, 10);
  CHECK(decide(snapshot).jobs[2].nodes == NodeList{2});
  snapshot.jobs[1].requested_replicas = 9;  // more than there are
  snapshot.nodes[2].capacity = {0};
  const Decision decision = decide(snapshot);
  CHECK(decision.jobs[1].why ==
        "it cannot run: it needs 9 replicas, but the nodes of one kind hold at most 8");
  CHECK(decision.jobs[2].nodes == NodeList{1});
}

TEST_CASE("fixed: the large job starts in the end, however many small ones come") {
  Snapshot snapshot = cluster({{"", 4}, {"", 4}});
  add_job(snapshot, 8).name = "large";
  add_job(snapshot, 1, 0, {0});
  std::vector<double> ends = {1e9, 500};
  Draw draw(3);
  bool started = false;
  double now = 0;
  for (; now < 10000 && !started; now += 60) {
    add_job(snapshot, draw.integer(1, 3)).name = fmt::format("small{}", now);
    ends.push_back(1e9);
    const Decision decision = decide(snapshot);
    started = !decision.jobs[0].nodes.empty();
    for (size_t j = snapshot.jobs.size(); j-- > 0;) {
      if (snapshot.jobs[j].nodes.empty() && !decision.jobs[j].nodes.empty()) {
        ends[j] = now + draw.uniform(200, 2000);
      }
      snapshot.jobs[j].nodes = decision.jobs[j].nodes;
      snapshot.jobs[j].age_s += 60;
      if (ends[j] > now) continue;
      snapshot.jobs.erase(snapshot.jobs.begin() + static_cast<ptrdiff_t>(j));
      ends.erase(ends.begin() + static_cast<ptrdiff_t>(j));
    }
  }
  CHECK(started);
  CHECK(now > 3600);  // it was overtaken for as long as it is patient
  CHECK(now < 3600 + 2200);
}

}  // namespace
}  // namespace adaptdl
