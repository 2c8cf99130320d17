#include "core/policy/pollux/pollux_cluster_size.h"

#include <doctest/doctest.h>
#include <limits>

#include "core/base/error.h"
#include "tests/unit/policy/random_snapshot.h"

namespace adaptdl {
namespace {

const NodeSnapshot kNode{"like this", "", {4}};

// The same jobs whatever the size, and more of them after the same first.
Snapshot cluster(int nodes, int jobs) {
  SnapshotShape shape;
  shape.nodes = 64;
  shape.jobs = jobs;
  shape.running = 0;
  Snapshot snapshot = random_snapshot(7, shape);
  snapshot.nodes.resize(static_cast<size_t>(nodes));
  return snapshot;
}

TEST_CASE("a cluster too large shrinks, one too small grows, and both end in the band") {
  const auto large = wish_cluster_size(cluster(64, 10), kNode, 1, 64);
  CHECK(large.nodes < 64);
  CHECK(large.utility <= 0.65);
  CHECK(large.why.find("bring little") != std::string::npos);
  const auto small = wish_cluster_size(cluster(1, 10), kNode, 1, 64);
  CHECK(small.nodes > 1);
  CHECK(small.utility <= 0.65);
  CHECK(small.why.find("would use more accelerators well") != std::string::npos);
  CHECK(small.nodes == large.nodes);

  const auto stays = wish_cluster_size(cluster(small.nodes, 10), kNode, 1, 64);
  CHECK(stays.nodes == small.nodes);
}

TEST_CASE("bounds are kept and named") {
  const auto most = wish_cluster_size(cluster(1, 40), kNode, 1, 2);
  CHECK(most.nodes == 2);
  CHECK(most.why.find("no more nodes are allowed") != std::string::npos);
  const auto least = wish_cluster_size(cluster(20, 1), kNode, 15, 20);
  CHECK(least.nodes == 15);
  CHECK(least.why.find("no fewer nodes are allowed") != std::string::npos);
  CHECK(wish_cluster_size(cluster(5, 0), kNode, 2, 9).nodes == 2);
  CHECK(wish_cluster_size(cluster(0, 3), kNode, 0, 9).nodes > 0);
}

TEST_CASE("nodes without what jobs are counted by are none") {
  Snapshot mixed = cluster(4, 10);
  const auto wished = wish_cluster_size(mixed, kNode, 1, 64);
  for (int i = 0; i < 60; ++i) mixed.nodes.push_back({fmt::format("system-{}", i), "", {0}});
  CHECK(wish_cluster_size(mixed, kNode, 1, 64).why == wished.why);
}

TEST_CASE("more jobs wish no fewer nodes") {
  int last = 0;
  for (const int jobs : {2, 4, 8, 16}) {
    const int nodes = wish_cluster_size(cluster(4, jobs), kNode, 1, 64).nodes;
    CHECK(nodes >= last);
    last = nodes;
  }
}

TEST_CASE("a job without any goodput is left out") {
  Snapshot snapshot = cluster(1, 10);
  PerfParams& perf = *snapshot.jobs[2].hints.perf;
  perf.alpha_c = perf.beta_c = std::numeric_limits<double>::max();
  const auto wish = wish_cluster_size(snapshot, kNode, 1, 64);
  CHECK(wish.utility > 0);
  CHECK(wish.nodes > 1);
}

TEST_CASE("what does not fit together is refused") {
  const Snapshot snapshot = cluster(2, 2);
  CHECK_THROWS_AS(wish_cluster_size(snapshot, kNode, 3, 2), Error);
  CHECK_THROWS_AS(wish_cluster_size(snapshot, kNode, -1, 2), Error);
  CHECK_THROWS_AS(wish_cluster_size(snapshot, {"none", "", {0}}, 1, 2), Error);
  CHECK_THROWS_AS(wish_cluster_size(snapshot, {"two", "", {1, 1}}, 1, 2), Error);
  CHECK_THROWS_AS(wish_cluster_size(snapshot, kNode, 1, 2, {}, {0.5, 0.5}), Error);
}

}  // namespace
}  // namespace adaptdl
