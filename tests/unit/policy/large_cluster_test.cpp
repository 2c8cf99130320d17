#include <cmath>
#include <doctest/doctest.h>

#include "core/policy/policy.h"
#include "tests/unit/policy/large_snapshot.h"

namespace adaptdl {
namespace {

TEST_CASE("large clusters: decided within a hundredth of the bound") {
  const std::vector<std::string> three = {"a100", "t4", "v100"};
  const LargeShape shapes[] = {{20'000, 12'500, 8},
                               {20'000, 12'500, 8, three},
                               {2000, 200, 8, three, 0},
                               {2000, 1250, 8, three, 1}};
  for (const char* name : {"proportional", "sia"}) {
    const auto policy = make_policy(name);
    for (const LargeShape& shape : shapes) {
      const Snapshot snapshot = large_snapshot(6, shape);
      const Decision decision = policy->decide(snapshot, 1, {});
      INFO(name << ", " << shape.jobs << " jobs on " << shape.nodes << " nodes");
      CHECK(decision.gap <= 0.01 * std::abs(decision.objective));
      std::vector<NodeList> allocation;
      for (const JobDecision& job : decision.jobs) allocation.push_back(job.nodes);
      CHECK(broken_rule(snapshot, allocation, true).value_or("") == "");
    }
  }
}

TEST_CASE("no longer search finds more than the gap tells") {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Snapshot snapshot = large_snapshot(seed, {100, 12, 4, {"a100", "t4", "v100"}});
    for (const char* name : {"proportional", "sia"}) {
      const auto policy = make_policy(name);
      const Decision hasty = policy->decide(snapshot, 1, {.work = 0});
      const Decision best = policy->decide(snapshot, 1, {});
      INFO(name << ", seed " << seed);
      CHECK(std::abs(best.objective - hasty.objective) <= hasty.gap + 1e-9);
      CHECK(best.gap <= hasty.gap + 1e-9);
    }
  }
}

}  // namespace
}  // namespace adaptdl
