// scenario_test FILE [POLICY SEED]: plays a scenario under each of its policies with each of its
// seeds, or under one with one, always twice: the same events must come in the same order. Prints
// what each run came to. Exit code 0: all that must hold has held; 1: not, or no scenario; 2: wrong
// usage.

#include <cstdio>

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/sim/scenario/scenario_run.h"

namespace adaptdl {
namespace {

bool play(const Scenario& scenario, const std::string& policy, uint64_t seed) {
  const ScenarioOutcome once = run_scenario(scenario, policy, seed);
  const ScenarioOutcome again = run_scenario(scenario, policy, seed);
  fmt::print("{:8} seed {}: {} of {} jobs, mean {}, longest {}, {:.1f} restarts a job, {} events\n",
             policy, seed, once.summary.completed, once.summary.jobs,
             format_duration(once.summary.avg_jct_s), format_duration(once.summary.max_jct_s),
             once.summary.restarts_per_job, once.events);
  std::vector<std::string> wrong = once.violations;
  if (once.hash != again.hash) {
    wrong.push_back(fmt::format("two runs differ: {:016x} after {} events, {:016x} after {}",
                                once.hash, once.events, again.hash, again.events));
  }
  for (const std::string& sentence : wrong) fmt::print("  {}\n", sentence);
  if (!wrong.empty()) {
    fmt::print("  again: scenario_test {} {} {}\n", scenario.path, policy, seed);
  }
  return wrong.empty();
}

bool play_all(const Scenario& scenario) {
  bool good = true;
  for (const auto& [policy, options] : scenario.policies) {
    for (int seed = 1; seed <= scenario.seeds; ++seed) {
      good &= play(scenario, policy, static_cast<uint64_t>(seed));
    }
  }
  return good;
}

int run(int argc, char** argv) {
  if (argc != 2 && argc != 4) {
    fmt::print(stderr, "usage: scenario_test FILE [POLICY SEED]\n");
    return 2;
  }
  try {
    const Scenario scenario = read_scenario(argv[1]);
    fmt::print("{}\n", scenario.about);
    const bool good = argc == 2 ? play_all(scenario)
                                : play(scenario, argv[2], parse_unsigned(argv[3], "the seed"));
    return good ? 0 : 1;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace adaptdl

int main(int argc, char** argv) {
  return adaptdl::run(argc, argv);
}
