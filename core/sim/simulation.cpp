#include "core/sim/simulation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace adaptdl {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double mean(const std::vector<double>& values) {
  if (values.empty()) return kNone;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double largest(const std::vector<double>& values) {
  return values.empty() ? kNone : *std::max_element(values.begin(), values.end());
}

// Fraction of a job's work; with less progress the simulation might never end.
constexpr double kWorthwhile = 1e-3;

}  // namespace

Simulation::Simulation(SimCluster& cluster, Policy& policy, const AllocatorOptions& options,
                       double patience_s)
    : cluster_(cluster),
      allocator_(cluster, policy, options),
      interval_s_(options.interval_s),
      tick_s_(std::min(options.interval_s, std::max(1.0, options.event_gap_s))),
      patience_s_(patience_s) {}

void Simulation::at(double time_s, std::function<void()> action) {
  actions_.emplace(time_s, std::move(action));
}

// Runs all actions that are due. Returns whether there were any.
bool Simulation::act() {
  bool acted = false;
  while (!actions_.empty() && actions_.begin()->first <= cluster_.now_s()) {
    const auto action = std::move(actions_.begin()->second);
    actions_.erase(actions_.begin());
    action();
    acted = true;
  }
  return acted;
}

// Without jobs, advances to the last round before the next event: a workload may have days without
// events.
void Simulation::skip_empty_rounds() {
  if (!cluster_.nobody_there()) return;
  double next_s = cluster_.next_submission_s();
  if (!actions_.empty()) next_s = std::min(next_s, actions_.begin()->first);
  const double due_s = std::max(allocator_.due(), tick_s_);
  const double rounds = std::floor((next_s - due_s) / interval_s_);
  if (!std::isfinite(next_s) || rounds < 1) return;
  times_.rounds += static_cast<int>(rounds);
  cluster_.advance_to(due_s + rounds * interval_s_);
}

bool Simulation::step() {
  skip_empty_rounds();
  // The first round comes after one tick, when the first jobs have been submitted.
  const auto due = [this] { return std::max(allocator_.due(), tick_s_); };
  do {
    const double now = cluster_.now_s();
    double until = std::min(due(), now + tick_s_);
    if (!actions_.empty()) until = std::min(until, actions_.begin()->first);
    bool changed = cluster_.advance_to(std::max(until, now));
    changed |= act();
    if (changed) allocator_.something_happened(cluster_.now_s());
    if (cluster_.all_finished()) break;
  } while (cluster_.now_s() < due());

  const AllocatorRound round = allocator_.round();
  ++times_.rounds;
  times_.sum_s += round.policy_s;
  times_.max_s = std::max(times_.max_s, round.policy_s);
  for (const std::string& problem : round.problems) {
    if (std::find(problems_.begin(), problems_.end(), problem) == problems_.end()) {
      problems_.push_back(problem);
    }
  }
  double done = 0;  // shares of the jobs' work
  for (const SimCluster::Job& job : cluster_.all_jobs()) {
    const Profile& profile = job.state.profile();
    done += job.state.progress() / profile.progress_at_end(profile.epochs() - 1);
  }
  const bool waits_for_more = std::isfinite(cluster_.next_submission_s()) || !actions_.empty();
  if (done > done_ + kWorthwhile || waits_for_more) {
    idle_since_s_ = cluster_.now_s();
    done_ = done;
  }
  return !cluster_.all_finished() && cluster_.now_s() - idle_since_s_ < patience_s_;
}

std::vector<JobResult> Simulation::results() const {
  std::vector<JobResult> results;
  for (const SimCluster::Job& job : cluster_.all_jobs()) {
    JobResult result{.name = job.spec.name,
                     .application = job.spec.application,
                     .submitted_s = job.spec.submitted_s,
                     .started_s = job.started_s,
                     .completed_s = job.completed_s,
                     .restarts = job.restarts,
                     .gpu_s = job.state.attained_service(),
                     .gpu_s_by_kind = job.gpu_s_by_kind};
    if (job.completed_s >= 0) result.jct_s = job.completed_s - job.spec.submitted_s;
    results.push_back(std::move(result));
  }
  return results;
}

SimulationSummary summarise(const std::vector<JobResult>& jobs, const PolicyTimes& times) {
  std::vector<double> jct, ends, fairness;
  double gpu_s = 0, restarts = 0;
  std::map<std::string, double> hours;
  for (const JobResult& job : jobs) {
    gpu_s += job.gpu_s;
    for (const auto& [kind, seconds] : job.gpu_s_by_kind) hours[kind] += seconds / 3600;
    restarts += job.restarts;
    if (job.jct_s < 0) continue;
    jct.push_back(job.jct_s);
    ends.push_back(job.completed_s);
    if (job.fairness >= 0) fairness.push_back(job.fairness);
  }
  return {.jobs = static_cast<int>(jobs.size()),
          .completed = static_cast<int>(jct.size()),
          .avg_jct_s = mean(jct),
          .p50_jct_s = percentile(jct, 0.5),
          .p99_jct_s = percentile(jct, 0.99),
          .max_jct_s = largest(jct),
          .makespan_s = largest(ends),
          .gpu_hours = gpu_s / 3600,
          .restarts_per_job = jobs.empty() ? kNone : restarts / static_cast<double>(jobs.size()),
          .gpu_hours_by_kind = std::move(hours),
          .worst_fairness = largest(fairness),
          .mean_fairness = mean(fairness),
          .rounds = times.rounds,
          .policy_mean_s = times.rounds > 0 ? times.sum_s / times.rounds : kNone,
          .policy_max_s = times.max_s};
}

double percentile(std::vector<double> values, double q) {
  if (values.empty()) return kNone;
  std::sort(values.begin(), values.end());
  const double position = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(position);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (position - static_cast<double>(low)) * (values[high] - values[low]);
}

}  // namespace adaptdl
