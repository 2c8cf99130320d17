#include "core/sim/scenario/scenario_run.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/sim/experiment.h"
#include "core/sim/scenario/scenario_checks.h"
#include "core/sim/scenario/scenario_faults.h"

namespace adaptdl {
namespace {

// A scenario fails after this time without progress, or after so many rounds.
constexpr double kPatience = 6 * 3600;
constexpr int kMaxRounds = 20'000;

// FNV-1a (Fowler, Noll, Vo; IETF draft-eastlake-fnv), 64 bits.
class EventHash {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) {
      value_ = (value_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
    }
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

std::map<std::string, double> options_of(const Scenario& scenario, const std::string& policy) {
  for (const auto& [name, options] : scenario.policies) {
    if (name == policy) return options;
  }
  return {};
}

// Adaptive policies avoid interference, unless an option turns it off.
bool avoids_interference(const std::string& policy, const std::map<std::string, double>& options) {
  const auto own = options.find("avoid-interference");
  return adapts_batch(policy) && (own == options.end() || own->second != 0);
}

}  // namespace

ScenarioOutcome run_scenario(const Scenario& scenario, const std::string& policy, uint64_t seed) {
  SimClusterOptions world = scenario.cluster;
  world.adapt_batch = adapts_batch(policy);
  Rng rng(seed);
  const auto late = [&] { return static_cast<double>(rng.below(scenario.jitter_s + 1ULL)); };
  std::vector<WorkloadJob> workload = scenario.workload;
  for (WorkloadJob& job : workload) job.submitted_s += late();
  std::vector<ScenarioFault> list = scenario.faults;
  for (ScenarioFault& fault : list) {
    const double by_s = late();
    fault.from_s += by_s;
    fault.until_s += by_s;
  }
  SimCluster cluster(scenario.nodes, workload, scenario.profiles, world);
  const auto options = options_of(scenario, policy);
  const auto chosen = make_simulated_policy(policy, options, cluster, scenario.nodes);
  AllocatorOptions rounds = scenario.rounds;
  rounds.seed = seed;
  Simulation simulation(cluster, *chosen, rounds, kPatience);
  const ScenarioFaults faults(list, cluster, simulation, rng);
  ScenarioChecks checks(scenario, cluster, policy, avoids_interference(policy, options));

  ScenarioOutcome outcome;
  EventHash hash;
  Timeline timeline(scenario.nodes);
  cluster.on_event = [&](const TimelineEvent& event) {
    hash.add(dump_json(timeline.add(event)));
    ++outcome.events;
    checks.on_event(event);
  };
  int played = 0;
  bool more = true;
  while (more && played++ < kMaxRounds) {
    more = simulation.step();
    checks.after_round();
  }
  const std::vector<JobResult> jobs = simulation.results();
  checks.at_end(jobs, simulation.problems());
  hash.add(fmt::format("{:016x}", rng.bits()));
  outcome.hash = hash.value();
  outcome.violations = checks.violations();
  if (more)
    outcome.violations.push_back(
        fmt::format("the scenario has not ended after {} rounds", kMaxRounds));
  outcome.summary = summarise(jobs, simulation.policy_times());
  return outcome;
}

}  // namespace adaptdl
