// What every policy owes its callers, checked for each of policies() on random snapshots.

#include <doctest/doctest.h>

#include "core/policy/policy.h"
#include "tests/unit/policy/random_snapshot.h"

namespace adaptdl {
namespace {

std::string check_feasible(const Snapshot& snapshot, const Decision& decision, bool avoid) {
  std::vector<NodeList> allocation;
  for (const auto& job : decision.jobs) allocation.push_back(job.nodes);
  return broken_rule(snapshot, allocation, avoid).value_or("");
}

TEST_CASE("every policy's answer is feasible and says why") {
  for (const PolicyInfo& info : policies()) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      SnapshotShape shape;
      shape.nodes = 6;
      shape.pinned = 0.2;
      const Snapshot snapshot = random_snapshot(seed, shape);
      const Decision decision = make_policy(info.name)->decide(snapshot, 1, {200'000, {}});
      INFO(info.name << ", seed " << seed);
      REQUIRE(decision.jobs.size() == snapshot.jobs.size());
      CHECK(check_feasible(snapshot, decision, false) == "");
      for (const auto& job : decision.jobs) CHECK_FALSE(job.why.empty());
    }
  }
}

}  // namespace
}  // namespace adaptdl
