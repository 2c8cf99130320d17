#include "core/policy/feasibility.h"

#include <doctest/doctest.h>

#include "tests/unit/policy/random_snapshot.h"

namespace adaptdl {
namespace {

// Two nodes of four GPUs and sixteen cores, and two jobs of one GPU and two cores a replica.
Snapshot small() {
  Snapshot snapshot;
  snapshot.resources = {"gpu", "cores"};
  snapshot.nodes = {{"a", "", {4, 16}}, {"b", "", {4, 16}}};
  for (const char* name : {"one", "two"}) {
    JobSnapshot job;
    job.name = name;
    job.max_replicas = 8;
    job.request = {1, 2};
    snapshot.jobs.push_back(job);
  }
  return snapshot;
}

std::string broken(const Snapshot& snapshot, std::vector<NodeList> allocation, bool avoid = true) {
  return broken_rule(snapshot, allocation, avoid).value_or("");
}

TEST_CASE("a node fits as many replicas as its scarcest resource") {
  Snapshot snapshot = small();
  snapshot.jobs[0].request = {1, 5};
  snapshot.jobs[1].request = {0, 1};
  FreeResources free(snapshot);
  CHECK(free.fits(0, 0) == 3);
  CHECK(free.fits(1, 0) == 16);
  free.take(1, {0, 0, 0, 0, 0, 0, 0});
  CHECK(free.free(0, 1) == 9);
  CHECK(free.fits(0, 0) == 1);
  CHECK(free.can_take(0, {0, 1, 1}));
  CHECK_FALSE(free.can_take(0, {0, 0, 1}));
  free.release(1, 0, 7);
  CHECK(free.fits(0, 0) == 3);
}

TEST_CASE("each rule is told from the others") {
  const Snapshot snapshot = small();
  CHECK(broken(snapshot, {{}, {}}) == "");
  CHECK(broken(snapshot, {{0, 0, 1, 1}, {0, 0}}) == "");
  CHECK(broken(snapshot, {{0, 0, 0}, {0, 0}}) == "node a: 5 of 4 gpu are allocated");
  CHECK(broken(snapshot, {{0, 0, 1, 1}, {0, 1}}) ==
        "node a: the distributed jobs one and two share it");
  CHECK(broken(snapshot, {{0, 0, 1, 1}, {0, 1}}, false) == "");
}

TEST_CASE("bounds, pinning and accelerator kinds belong to the job") {
  Snapshot snapshot = small();
  snapshot.jobs[0].min_replicas = 2;
  snapshot.jobs[0].max_replicas = 3;
  CHECK(broken(snapshot, {{0}, {}}) == "job one: 1 replicas; 2 to 3 are allowed");
  CHECK(broken(snapshot, {{0, 0, 1, 1}, {}}) == "job one: 4 replicas; 2 to 3 are allowed");
  snapshot.nodes[1].accelerator = "fast";
  CHECK(broken(snapshot, {{}, {0, 1}}) == "job two: its nodes have accelerators of several kinds");
  snapshot.jobs[1].preemptible = false;
  CHECK(broken(snapshot, {{}, {0}}) == "");  // it has no allocation to keep
  snapshot.jobs[1].nodes = {0};
  CHECK(broken(snapshot, {{}, {}}) == "job two: its allocation changes, but it is not preemptible");
  CHECK(broken(snapshot, {{}, {0}}) == "");
}

TEST_CASE("random snapshots are sound, and their present allocation is feasible") {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SnapshotShape shape;
    shape.gpus = {2, 4, 8};
    shape.accelerators = {"old", "new"};
    shape.cores = seed % 2 == 1;
    shape.wide = seed % 3 == 1;
    shape.pinned = 0.2;
    shape.running = 0.7;
    const Snapshot snapshot = random_snapshot(seed, shape);
    CHECK_NOTHROW(check_snapshot(snapshot));
    std::vector<NodeList> present;
    for (const auto& job : snapshot.jobs) present.push_back(job.nodes);
    CHECK(broken(snapshot, present) == "");
  }
}

}  // namespace
}  // namespace adaptdl
