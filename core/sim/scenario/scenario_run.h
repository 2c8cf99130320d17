#pragma once

// Plays scenarios.

#include <cstdint>
#include <string>
#include <vector>

#include "core/sim/scenario/scenario.h"
#include "core/sim/simulation.h"

namespace adaptdl {

struct ScenarioOutcome {
  // Of every event in order and of the random numbers drawn: equal for equal arguments, or
  // something in the scheduler or the simulator depends on what it must not.
  uint64_t hash = 0;
  int64_t events = 0;
  std::vector<std::string> violations;  // sentences; empty if all held
  SimulationSummary summary{};
};

// Once, under one of its policies. The seed is the faults' and the policy's. Some milliseconds for
// each job. Throws Error for a policy or option that is not there.
ScenarioOutcome run_scenario(const Scenario& scenario, const std::string& policy, uint64_t seed);

}  // namespace adaptdl
