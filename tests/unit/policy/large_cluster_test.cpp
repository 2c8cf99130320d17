#include <cmath>
#include <doctest/doctest.h>
#include <time.h>

#include "core/policy/policy.h"
#include "tests/unit/policy/large_snapshot.h"

namespace adaptdl {
namespace {

double used_processor_s() {
  timespec time;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

TEST_CASE("large clusters: decided in time, within a hundredth of the bound") {
  const std::vector<std::string> three = {"a100", "t4", "v100"};
  struct Case {
    LargeShape shape;
    double seconds;
  };
  const Case cases[] = {{{20'000, 12'500, 8}, 1},
                        {{20'000, 12'500, 8, three}, 1},
                        {{2000, 200, 8, three, 0}, 0.2},
                        {{2000, 1250, 8, three, 1}, 0.2}};
  for (const char* name : {"proportional", "sia"}) {
    const auto policy = make_policy(name);
    for (const auto& [shape, seconds] : cases) {
      const Snapshot snapshot = large_snapshot(6, shape);
      const double started = used_processor_s();
      const Decision decision = policy->decide(snapshot, 1, {});
      const double took = used_processor_s() - started;
      INFO(name << ", " << shape.jobs << " jobs on " << shape.nodes << " nodes: " << took << " s");
      CHECK(decision.gap <= 0.01 * std::abs(decision.objective));
      CHECK(took < 10 * seconds);  // builds with sanitizers and busy machines are slower
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
