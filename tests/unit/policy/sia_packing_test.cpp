#include <algorithm>
#include <doctest/doctest.h>
#include <numeric>
#include <set>

#include "core/policy/packing.h"
#include "tests/unit/policy/random_snapshot.h"

namespace adaptdl {
namespace {

Snapshot cluster(const std::vector<int64_t>& gpus, int jobs) {
  Snapshot snapshot;
  snapshot.resources = {"gpu"};
  for (const int64_t count : gpus) {
    snapshot.nodes.push_back({fmt::format("n{}", snapshot.nodes.size()), "", {count}});
  }
  for (int j = 0; j < jobs; ++j) {
    JobSnapshot job;
    job.name = fmt::format("j{}", j);
    job.max_replicas = 64;
    job.request = {1};
    snapshot.jobs.push_back(job);
  }
  return snapshot;
}

TEST_CASE("kinds are ordered by name") {
  Snapshot snapshot = cluster({4, 4, 4}, 0);
  snapshot.nodes[0].accelerator = "t4";
  snapshot.nodes[1].accelerator = "a100";
  snapshot.nodes[2].accelerator = "t4";
  const NodeKinds kinds(snapshot);
  CHECK(kinds.names == std::vector<std::string>{"a100", "t4"});
  CHECK(kinds.nodes == std::vector<std::vector<int>>{{1}, {0, 2}});
  CHECK(kinds.of_node == std::vector<int>{1, 0, 1});
}

TEST_CASE("a job goes where least is left over") {
  const Snapshot snapshot = cluster({4, 4, 4}, 3);
  const NodeKinds kinds(snapshot);
  Packing packing(snapshot, kinds);
  REQUIRE(packing.keep(0, {1, 1}));
  REQUIRE(packing.place(1, {0, 1, 2}));
  CHECK(packing.nodes(1) == NodeList{1, 1});
  REQUIRE(packing.place(2, {0, 2, 8}));
  CHECK(packing.nodes(2) == NodeList{0, 0, 0, 0, 2, 2, 2, 2});
}

TEST_CASE("as few jobs as possible are moved to make room") {
  const Snapshot snapshot = cluster({4, 4, 4}, 6);
  const NodeKinds kinds(snapshot);
  Packing packing(snapshot, kinds);
  REQUIRE(packing.keep(0, {0}));
  REQUIRE(packing.keep(1, {0}));
  REQUIRE(packing.keep(2, {1, 1}));
  REQUIRE(packing.keep(3, {2}));
  REQUIRE(packing.keep(4, {2, 2}));
  std::vector<int> moved;
  REQUIRE(packing.place_moving(5, {0, 1, 4}, moved));
  CHECK(moved == std::vector<int>{2});
  CHECK(packing.nodes(5) == NodeList{1, 1, 1, 1});
  CHECK(packing.nodes(2).empty());
}

TEST_CASE("nobody is moved for a job of its own size, nor a job that is fixed") {
  const Snapshot snapshot = cluster({4, 4}, 3);
  const NodeKinds kinds(snapshot);
  Packing packing(snapshot, kinds);
  REQUIRE(packing.keep(0, {0, 0, 0, 0}));
  REQUIRE(packing.keep(1, {1}, true));
  std::vector<int> moved;
  CHECK_FALSE(packing.place_moving(2, {0, 1, 4}, moved));
  CHECK(moved.empty());
  CHECK(packing.nodes(0).size() == 4);
}

TEST_CASE("at most one job of several nodes is on a node") {
  const Snapshot snapshot = cluster({4, 4, 4, 4}, 3);
  const NodeKinds kinds(snapshot);
  Packing packing(snapshot, kinds);
  REQUIRE(packing.keep(0, {0, 0, 1, 1}));
  CHECK_FALSE(packing.keep(1, {1, 2}));
  REQUIRE(packing.place(1, {0, 2, 4}));
  CHECK(packing.nodes(1) == NodeList{2, 2, 3, 3});
  CHECK(packing.place(2, {0, 1, 2}));
}

TEST_CASE("powers of two and whole nodes always fit when the GPUs suffice") {
  Draw draw(9);
  for (int round = 0; round < 300; ++round) {
    const int per_node = 1 << draw.integer(0, 3), nodes = draw.integer(1, 12);
    Snapshot snapshot = cluster(std::vector<int64_t>(static_cast<size_t>(nodes), per_node), 60);
    const NodeKinds kinds(snapshot);
    Packing packing(snapshot, kinds);
    int left = per_node * nodes, next = 0;
    std::vector<Configuration> shape(60);
    const auto fill = [&](double share, bool scattered) {
      for (const int until = static_cast<int>(left * (1 - share)); left > until && next < 60;) {
        Configuration c = {0, 1, 1 << draw.integer(0, static_cast<int>(std::log2(per_node)))};
        if (draw.chance(0.2)) c = {0, draw.integer(2, 4), 0};
        if (c.nodes > 1) c.replicas = c.nodes * per_node;
        if (c.replicas > left) c = {0, 1, 1};
        shape[static_cast<size_t>(next)] = c;
        left -= c.replicas;
        std::set<std::pair<int, int>> queue = {{c.replicas / c.nodes, next}};
        if (scattered && c.nodes == 1) {  // anywhere, so that the rest is in pieces
          NodeList free;
          for (int n = 0; n < nodes; ++n) {
            if (packing.free().free(n) >= c.replicas) free.push_back(n);
          }
          if (!free.empty()) {
            REQUIRE(
                packing.keep(next, NodeList(static_cast<size_t>(c.replicas), draw.one_of(free))));
            queue.clear();
          }
        }
        while (!queue.empty()) {
          const int job = queue.rbegin()->second;
          queue.erase(std::prev(queue.end()));
          std::vector<int> moved;
          INFO("round " << round);
          REQUIRE(packing.place_moving(job, shape[static_cast<size_t>(job)], moved));
          for (const int other : moved) {
            queue.insert({shape[static_cast<size_t>(other)].replicas, other});
          }
        }
        ++next;
      }
    };
    fill(0.6, true);
    fill(1, false);
  }
}

// All nodes that can hold the shares, by trying each.
std::vector<int> nodes_by_trying(const Packing& packing, const Snapshot& snapshot, int job,
                                 const std::vector<int>& taken_by_several, const Configuration& c) {
  const int share = (c.replicas - 1) / c.nodes + 1;
  std::vector<int> fitting;
  for (int n = 0; n < static_cast<int>(snapshot.nodes.size()); ++n) {
    const bool alone = c.nodes > 1 && taken_by_several[static_cast<size_t>(n)] > 0;
    if (!alone && packing.free().fits(job, n) >= share) fitting.push_back(n);
  }
  return fitting;
}

TEST_CASE("a job is placed if any nodes have room, on those with the fewest free GPUs") {
  Draw draw(21);
  for (int round = 0; round < 200; ++round) {
    SnapshotShape shape;
    shape.nodes = draw.integer(1, 12);
    shape.gpus = {2, 4, 8};
    shape.cores = draw.chance(0.5);
    shape.wide = draw.chance(0.5);
    shape.jobs = 30;
    shape.running = 0;
    const Snapshot snapshot = random_snapshot(static_cast<uint64_t>(round), shape);
    const NodeKinds kinds(snapshot);
    Packing packing(snapshot, kinds);
    std::vector<int> several(snapshot.nodes.size());
    for (int j = 0; j < shape.jobs; ++j) {
      const int nodes = draw.chance(0.7) ? 1 : draw.integer(2, 3);
      const Configuration c = {0, nodes, nodes * draw.integer(1, 4)};
      const std::vector<int> fitting = nodes_by_trying(packing, snapshot, j, several, c);
      std::vector<int64_t> free;
      for (const int n : fitting) free.push_back(packing.free().free(n));
      std::sort(free.begin(), free.end());
      std::vector<int64_t> before;
      for (size_t n = 0; n < snapshot.nodes.size(); ++n) {
        before.push_back(packing.free().free(static_cast<int>(n)));
      }
      INFO("round " << round << ", job " << j);
      const bool placed = packing.place(j, c);
      REQUIRE(placed == (fitting.size() >= static_cast<size_t>(nodes)));
      if (!placed) continue;
      const std::set<int> chosen(packing.nodes(j).begin(), packing.nodes(j).end());
      CHECK(packing.nodes(j).size() == static_cast<size_t>(c.replicas));
      REQUIRE(chosen.size() == static_cast<size_t>(nodes));
      std::vector<int64_t> were;
      for (const int n : chosen) {
        were.push_back(before[static_cast<size_t>(n)]);
        if (nodes > 1) ++several[static_cast<size_t>(n)];
        CHECK(std::find(fitting.begin(), fitting.end(), n) != fitting.end());
      }
      std::sort(were.begin(), were.end());
      free.resize(static_cast<size_t>(nodes));
      CHECK(were == free);
    }
  }
}

TEST_CASE("where no moves made room, they may after larger jobs have left") {
  const Snapshot snapshot = cluster({8, 8}, 7);
  const NodeKinds kinds(snapshot);
  Packing packing(snapshot, kinds);
  REQUIRE(packing.keep(0, {0, 0, 0, 0}));
  REQUIRE(packing.keep(1, {0, 0, 0, 0}));
  REQUIRE(packing.keep(2, {1, 1, 1, 1}));
  REQUIRE(packing.keep(3, {1, 1, 1, 1}));
  std::vector<int> moved;
  CHECK_FALSE(packing.place_moving(4, {0, 1, 3}, moved));
  REQUIRE(packing.place_moving(5, {0, 1, 5}, moved));
  REQUIRE(moved.size() == 2);
  REQUIRE(packing.place(6, {0, 1, 2}));
  moved.clear();
  REQUIRE(packing.place_moving(4, {0, 1, 3}, moved));
  CHECK(moved == std::vector<int>{6});
}

}  // namespace
}  // namespace adaptdl
