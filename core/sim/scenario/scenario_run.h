#pragma once

// Runs scenarios.

#include <cstdint>
#include <string>
#include <vector>

#include "core/sim/scenario/scenario.h"
#include "core/sim/simulation.h"

namespace adaptdl {

struct ScenarioOutcome {
  // Of every event in order and of the random numbers. If it differs for equal arguments, the
  // scheduler or the simulator is not deterministic.
  uint64_t hash = 0;
  int64_t events = 0;
  std::vector<std::string> violations;  // sentences; empty if all properties held
  SimulationSummary summary{};
};

// Runs a scenario once, under one of its policies. The seed is for the faults and the policy. Some
// milliseconds for each job. Throws Error for an unknown policy or option.
ScenarioOutcome run_scenario(const Scenario& scenario, const std::string& policy, uint64_t seed);

}  // namespace adaptdl
