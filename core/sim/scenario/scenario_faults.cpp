#include "core/sim/scenario/scenario_faults.h"

#include <cmath>
#include <fnmatch.h>

namespace adaptdl {
namespace {

using FaultKind = ScenarioFault::Kind;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

}  // namespace

ScenarioFaults::ScenarioFaults(const std::vector<ScenarioFault>& faults, SimCluster& cluster,
                               Simulation& simulation, Rng& rng)
    : faults_(faults), cluster_(cluster), rng_(rng) {
  for (const ScenarioFault& fault : faults) {
    if (fault.node.empty()) continue;
    const auto lose = [&cluster, name = fault.node] { cluster.lose_node(name); };
    const auto notice = [&cluster, name = fault.node] { cluster.notice_node(name); };
    const auto back = [&cluster, name = fault.node] { cluster.return_node(name); };
    if (fault.kind == FaultKind::spot_notice) simulation.at(fault.from_s, notice);
    simulation.at(fault.from_s + fault.by_s, lose);
    if (std::isfinite(fault.until_s)) simulation.at(fault.until_s, back);
  }
  cluster.hints_arrive = [this](const SimCluster::Job& job) { return hints_arrive(job.spec.name); };
  cluster.distort = [this](ClusterJob& job) { distort(job); };
}

bool ScenarioFaults::concerns(const ScenarioFault& fault, const std::string& job) const {
  const double now_s = cluster_.now_s();
  return now_s >= fault.from_s && now_s < fault.until_s &&
         fnmatch(fault.jobs.c_str(), job.c_str(), 0) == 0;
}

bool ScenarioFaults::hints_arrive(const std::string& job) {
  bool arrive = true;
  for (const ScenarioFault& fault : faults_) {
    if (fault.kind != FaultKind::lost_hints || !concerns(fault, job)) continue;
    if (rng_.chance(fault.probability)) arrive = false;
  }
  return arrive;
}

void ScenarioFaults::distort(ClusterJob& job) {
  for (const ScenarioFault& fault : faults_) {
    if (!fault.node.empty() || !concerns(fault, job.name)) continue;
    if (fault.kind == FaultKind::late_hints) delay(fault, job);
    if (fault.kind == FaultKind::broken_hints) break_hints(job.hints, rng_);
    if (fault.kind == FaultKind::extreme_hints) exaggerate_hints(job.hints, rng_);
    if (fault.kind == FaultKind::clock_jump) job.submitted_s += fault.by_s;
  }
}

// The newest hints that are at least `by_s` old. A scheduler asks once per round.
void ScenarioFaults::delay(const ScenarioFault& fault, ClusterJob& job) {
  auto& told = told_[job.name];
  told.emplace_back(cluster_.now_s(), job.hints);
  const double arrived_s = cluster_.now_s() - fault.by_s;
  while (told.size() > 1 && told[1].first <= arrived_s) told.pop_front();
  job.hints = told.front().first <= arrived_s ? told.front().second : JobHints{};
}

void break_hints(JobHints& hints, Rng& rng) {
  hints.perf = hints.perf.value_or(PerfParams{});
  hints.grad = hints.grad.value_or(GradParams{});
  switch (rng.below(8)) {
    case 0:
      hints.perf->alpha_c = kNan;
      break;
    case 1:
      hints.perf->beta_n = kInfinite;
      break;
    case 2:
      hints.perf->gamma = -1;
      break;
    case 3:
      hints.grad->var = kNan;
      break;
    case 4:
      hints.batch = BatchBounds{.initial = 100, .max = 10};
      break;
    case 5:
      hints.max_profiled_replicas = -5;
      break;
    case 6:
      hints.remaining_progress = -kInfinite;
      break;
    default:
      hints.rescale_cost_s = kNan;
  }
}

void exaggerate_hints(JobHints& hints, Rng& rng) {
  if (!hints.perf || !hints.grad || !hints.batch) return;
  switch (rng.below(9)) {
    case 0:
      hints.perf->alpha_c = hints.perf->beta_c = 1e300;
      break;
    case 1:
      *hints.perf = {.gamma = 10};
      break;
    case 2:
      hints.perf->alpha_n = hints.perf->beta_r = 1e300;
      break;
    case 3:
      *hints.grad = {.sqr = 1e300, .var = 1e300};
      break;
    case 4:
      *hints.grad = {};
      break;
    case 5:
      hints.batch->max = hints.batch->atomic_max = int64_t{1} << 62;
      break;
    case 6:
      hints.max_profiled_replicas = std::numeric_limits<int>::max();
      break;
    case 7:
      hints.remaining_progress = 1e300;
      break;
    default:
      hints.rescale_cost_s = 1e300;
  }
}

}  // namespace adaptdl
