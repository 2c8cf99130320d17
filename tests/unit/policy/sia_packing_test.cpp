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

}  // namespace
}  // namespace adaptdl
