#pragma once

// Applies the faults of a scenario to a simulated cluster.

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/rng.h"
#include "core/sim/scenario/scenario.h"
#include "core/sim/simulation.h"

namespace adaptdl {

// Borrows everything for its lifetime. Sets the cluster's hooks `hints_arrive` and `distort`.
class ScenarioFaults {
 public:
  ScenarioFaults(const std::vector<ScenarioFault>& faults, SimCluster& cluster,
                 Simulation& simulation, Rng& rng);

 private:
  bool concerns(const ScenarioFault& fault, const std::string& job) const;
  bool hints_arrive(const std::string& job);
  void distort(ClusterJob& job);
  void delay(const ScenarioFault& fault, ClusterJob& job);

  const std::vector<ScenarioFault>& faults_;
  SimCluster& cluster_;
  Rng& rng_;
  std::map<std::string, std::deque<std::pair<double, JobHints>>> told_;  // job: time, hints
};

// Sets one random number to a value that check_hints() rejects.
void break_hints(JobHints& hints, Rng& rng);

// Sets one random number to a value that check_hints() accepts, but that no real job has.
void exaggerate_hints(JobHints& hints, Rng& rng);

}  // namespace adaptdl
