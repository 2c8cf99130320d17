#include "core/policy/pollux/pollux_objective.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/policy/perf_estimate.h"

namespace adaptdl {
namespace {

constexpr double kIdle = 0.001;  // u of a job without speedup

double change_factor_of(const JobSnapshot& job, double fallback_cost) {
  const double cost = rescale_cost_s(job, fallback_cost);
  if (cost <= 0) return 1;
  return std::max(job.age_s - job.restarts * cost, 0.0) / (job.age_s + cost);
}

}  // namespace

PolluxObjective::PolluxObjective(const Snapshot& snapshot, const PolluxOptions& options)
    : fairness_(options.fairness), jobs_(static_cast<double>(snapshot.jobs.size())) {
  std::map<std::string, int64_t> gpus_of_kind;
  int64_t gpus = 0, nodes = 0;
  for (const NodeSnapshot& node : snapshot.nodes) {
    gpus_of_kind[node.accelerator] += node.capacity[0];
    gpus += node.capacity[0];
    nodes += node.capacity[0] > 0;
  }
  if (gpus > 0) nodes_per_gpu_ = static_cast<double>(nodes) / static_cast<double>(gpus);
  for (const auto& [name, count] : gpus_of_kind) kind_names_.push_back(name);
  for (const NodeSnapshot& node : snapshot.nodes) {
    const auto at = std::lower_bound(kind_names_.begin(), kind_names_.end(), node.accelerator);
    kind_of_.push_back(static_cast<int>(at - kind_names_.begin()));
  }
  // The fair share is on the most common kind.
  size_t common = 0;
  for (size_t k = 0; k < kind_names_.size(); ++k) {
    if (gpus_of_kind[kind_names_[k]] > gpus_of_kind[kind_names_[common]]) common = k;
  }

  const PerfEstimate perf(snapshot, kind_names_);
  const auto jobs = static_cast<int64_t>(snapshot.jobs.size());
  for (const JobSnapshot& job : snapshot.jobs) {
    auto& tables = tables_.emplace_back();
    for (size_t k = 0; k < kind_names_.size(); ++k) {
      tables.push_back(perf.table(job.hints, k, assumed_power(job)));
    }
    const int64_t share = jobs * std::max<int64_t>(job.request[0], 1);
    const auto fair = static_cast<int>(std::clamp<int64_t>((gpus + share - 1) / share, 1, 1 << 16));
    base_.push_back(tables.empty() ? 1 : tables[common].at(1, fair));
    factor_.push_back(change_factor_of(job, options.rescale_cost_s));
  }
}

double PolluxObjective::speedup(int job, int kind, bool several_nodes, int replicas) {
  if (replicas == 0) return 0;
  const auto j = static_cast<size_t>(job);
  return tables_[j][static_cast<size_t>(kind)].at(several_nodes ? 2 : 1, replicas) / base_[j];
}

double PolluxObjective::value(double speedup_times_factor) const {
  const double u = speedup_times_factor * nodes_per_gpu_ + kIdle;
  if (fairness_ == -1) return -1 / u;
  if (fairness_ == 1) return u;
  if (fairness_ == 0) return std::log(u);
  return fairness_ > 0 ? std::pow(u, fairness_) : -std::pow(u, fairness_);
}

double PolluxObjective::fitness(double sum_of_values) const {
  if (jobs_ == 0) return 0;
  const double mean = std::abs(sum_of_values) / jobs_;
  if (fairness_ == -1) return 1 / mean;
  if (fairness_ == 1) return mean;
  if (fairness_ == 0) return std::exp(sum_of_values / jobs_);
  return std::pow(mean, 1 / fairness_);
}

PolluxEvaluation evaluate_pollux(const Snapshot& snapshot, std::span<const NodeList> allocation,
                                 const PolluxOptions& options) {
  ADAPTDL_CHECK(allocation.size() == snapshot.jobs.size());
  PolluxObjective objective(snapshot, options);
  PolluxEvaluation result;
  double sum = 0;
  for (size_t j = 0; j < allocation.size(); ++j) {
    NodeList nodes = allocation[j], present = snapshot.jobs[j].nodes;
    std::sort(nodes.begin(), nodes.end());
    std::sort(present.begin(), present.end());
    const int job = static_cast<int>(j);
    const int kind = nodes.empty() ? 0 : objective.kind_of(nodes.front());
    const bool several = !nodes.empty() && nodes.front() != nodes.back();
    result.speedup.push_back(objective.speedup(job, kind, several, static_cast<int>(nodes.size())));
    result.factor.push_back(nodes == present ? 1 : objective.change_factor(job));
    sum += objective.value(result.speedup.back() * result.factor.back());
  }
  result.fitness = objective.fitness(sum);
  return result;
}

int pollux_limit(const JobSnapshot& job) {
  return std::max(replica_limit(job), job.min_replicas);
}

}  // namespace adaptdl
