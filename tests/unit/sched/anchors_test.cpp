#include "core/sched/anchors.h"

#include <algorithm>
#include <doctest/doctest.h>

#include "core/base/rng.h"
#include "core/policy/feasibility.h"

namespace adaptdl {
namespace {

// Nodes of these capacities; jobs of one GPU a replica that have `present`.
Snapshot snapshot_of(const std::vector<int64_t>& capacities, const std::vector<NodeList>& present) {
  Snapshot snapshot;
  snapshot.resources = {"gpu"};
  for (size_t n = 0; n < capacities.size(); ++n) {
    snapshot.nodes.push_back({"n" + std::to_string(n), "", {capacities[n]}});
  }
  for (size_t j = 0; j < present.size(); ++j) {
    JobSnapshot job;
    job.name = "j" + std::to_string(j);
    job.max_replicas = 64;
    job.request = {1};
    job.nodes = present[j];
    snapshot.jobs.push_back(job);
  }
  return snapshot;
}

using Lists = std::vector<NodeList>;

Lists kept(const Snapshot& snapshot, const std::vector<Anchor>& anchors, Lists allocation) {
  keep_anchors(snapshot, anchors, allocation);
  CHECK_FALSE(broken_rule(snapshot, allocation, false));
  return allocation;
}

TEST_CASE("an anchor comes first in its job's list") {
  const Snapshot snapshot = snapshot_of({2, 2, 2}, {{1, 2}});
  CHECK(kept(snapshot, {{0, 1}}, {{0, 1, 2}}) == Lists{{1, 0, 2}});
  CHECK(kept(snapshot, {{0, 1}}, {{0, 1, 1, 2}}) == Lists{{1, 0, 1, 2}});
  CHECK(kept(snapshot, {{0, 1}}, {{}}) == Lists{{}});
  CHECK(kept(snapshot, {}, {{0, 1, 2}}) == Lists{{0, 1, 2}});
}

TEST_CASE("an anchor's node takes the place of another one where there is room") {
  const Snapshot snapshot = snapshot_of({2, 2, 2}, {{1, 2}, {0}});
  CHECK(kept(snapshot, {{0, 1}}, {{2}, {0}}) == Lists{{1}, {0}});
  // Of the others it is the newcomer.
  CHECK(kept(snapshot, {{0, 1}}, {{0, 2}, {}}) == Lists{{1, 2}, {}});
  CHECK(kept(snapshot, {{0, 1}}, {{2}, {1, 1}}) == Lists{{1}, {2, 2}});
}

TEST_CASE("a job that moves anyway makes room for an anchor, one that stays does not") {
  const Snapshot snapshot = snapshot_of({1, 1}, {{0, 1}, {}});
  CHECK(kept(snapshot, {{0, 0}}, {{1}, {0}}) == Lists{{0}, {1}});
  const Snapshot stays = snapshot_of({1, 1}, {{}, {0}});
  CHECK(kept(stays, {{0, 0}}, {{1}, {0}}) == Lists{{1}, {0}});
  SUBCASE("two on each other's node") {
    const Snapshot both = snapshot_of({1, 1}, {{0}, {1}});
    CHECK(kept(both, {{0, 0}, {1, 1}}, {{1}, {0}}) == Lists{{0}, {1}});
  }
  SUBCASE("not from its own anchor's node") {
    const Snapshot two = snapshot_of({1, 1, 1}, {{0, 1}, {0, 2}});
    CHECK(kept(two, {{0, 0}, {1, 0}}, {{1}, {0}}) == Lists{{1}, {0}});
  }
}

TEST_CASE("anchors move nothing to another kind, nor two distributed jobs together") {
  Snapshot snapshot = snapshot_of({2, 2}, {{0}});
  snapshot.nodes[1].accelerator = "other";
  CHECK(kept(snapshot, {{0, 0}}, {{1}}) == Lists{{1}});
  const Snapshot several = snapshot_of({4, 4, 4}, {{0}, {0, 1}});
  CHECK(kept(several, {{0, 0}}, {{1, 2}, {0, 1}}) == Lists{{1, 2}, {0, 1}});
}

TEST_CASE("whatever the allocation, it stays as large, as spread out and feasible") {
  Rng random(7);
  int brought = 0;
  for (int round = 0; round < 2000; ++round) {
    const int nodes = 2 + static_cast<int>(random.below(4));
    const int jobs = 1 + static_cast<int>(random.below(5));
    std::vector<int64_t> capacities;
    for (int n = 0; n < nodes; ++n) capacities.push_back(1 + static_cast<int64_t>(random.below(4)));
    const auto some_allocation = [&] {
      Lists lists(static_cast<size_t>(jobs));
      std::vector<int64_t> left = capacities;
      for (NodeList& list : lists) {
        for (uint64_t i = random.below(4); i > 0; --i) {
          const auto node = random.below(static_cast<uint64_t>(nodes));
          if (left[node] > 0) list.push_back(static_cast<int>(node)), --left[node];
        }
        std::sort(list.begin(), list.end());
      }
      return lists;
    };
    const Lists present = some_allocation();
    const Snapshot snapshot = snapshot_of(capacities, present);
    Lists before = some_allocation();
    std::vector<Anchor> anchors;
    for (int j = 0; j < jobs; ++j) {
      const auto i = static_cast<size_t>(j);
      if (random.below(3) == 0) before[i] = {};
      if (!present[i].empty() && random.below(2) == 0) anchors.push_back({j, present[i].front()});
    }
    const bool apart = !broken_rule(snapshot, before, true);
    const Lists after = kept(snapshot, anchors, before);
    CHECK((!apart || !broken_rule(snapshot, after, true)));
    for (size_t j = 0; j < before.size(); ++j) {
      CHECK(after[j].size() == before[j].size());
      CHECK(distinct_nodes(after[j]) == distinct_nodes(before[j]));
      if (before[j] == present[j]) CHECK(after[j] == before[j]);
    }
    for (const Anchor& anchor : anchors) {
      const auto has = [&](const NodeList& list) {
        return std::find(list.begin(), list.end(), anchor.node) != list.end();
      };
      const auto j = static_cast<size_t>(anchor.job);
      if (has(before[j])) CHECK(after[j].front() == anchor.node);
      brought += !has(before[j]) && has(after[j]);
    }
  }
  CHECK(brought > 200);
}

}  // namespace
}  // namespace adaptdl
