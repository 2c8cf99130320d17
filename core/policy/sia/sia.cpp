#include "core/policy/sia/sia.h"

#include <algorithm>
#include <cmath>

#include "core/policy/configuration_round.h"
#include "core/policy/sia/sia_values.h"

namespace adaptdl {
namespace {

struct SiaOptions {
  double p = -0.5, lambda = 1.1, rescale_cost_s = 30;
  bool as_simulated = false;  // by the publication's simulator
};

// Infinite values stay: the job must not have them.
double rounded(double value) {
  constexpr double kLargest = 3000;
  return std::isfinite(value) ? std::min(kLargest, std::nearbyint(100 * value) / 100) : value;
}

class SiaValuation : public Valuation {
 public:
  SiaValuation(const Snapshot& snapshot, const SiaOptions& options)
      : snapshot_(snapshot), options_(options) {}

  JobValues values(size_t j, std::span<const Configuration> configurations,
                   std::span<GoodputTable> goodput,
                   const std::optional<Configuration>& present) override {
    const JobSnapshot& job = snapshot_.jobs[j];
    // As published, a job that has measured nothing starts on any kind, though it may know speeds.
    if (job.hints.max_profiled_replicas == 0) {
      for (GoodputTable& table : goodput) table = GoodputTable(1, assumed_power(job));
    }
    const double cost = rescale_cost_s(job, options_.rescale_cost_s);
    const double change = job.nodes.empty() ? 1 : restart_factor(job.age_s, job.restarts, cost);
    JobValues result{.unassigned = options_.lambda};
    for (const auto& value : sia_values(configurations, goodput, present, change, options_.p)) {
      result.configurations.push_back(options_.as_simulated ? rounded(value.value) : value.value);
    }
    return result;
  }

  int64_t largest_batch(const JobSnapshot& job) const override {
    return options_.as_simulated ? job.requested_batch : 0;
  }

 private:
  const Snapshot& snapshot_;
  const SiaOptions& options_;
};

class Sia : public Policy {
 public:
  explicit Sia(const SiaOptions& options) : options_(options) {}

  Decision decide(const Snapshot& snapshot, uint64_t, const SearchBudget& budget) override {
    check_snapshot(snapshot);
    const auto value = [this](const Snapshot& seen) {
      return std::make_unique<SiaValuation>(seen, options_);
    };
    return decide_by_configuration(snapshot, value, budget);
  }

 private:
  SiaOptions options_;
};

std::unique_ptr<Policy> make_sia(const std::map<std::string, double>& options) {
  return std::make_unique<Sia>(SiaOptions{options.at("p"), options.at("lambda"),
                                          options.at("rescale-cost"),
                                          options.at("as-simulated") != 0});
}

}  // namespace

PolicyInfo sia_policy() {
  return {"sia",
          "adapts jobs on several kinds of accelerators, by an integer program (Sia, SOSP'23)",
          {{"p", "", -0.5, -10, -0.01,
            "how much jobs with little goodput are favoured: -0.01 hardly, -10 above all"},
           {"lambda", "", 1.1, 0, 1000,
            "cost of a job without an allocation; a job with its slowest configuration costs 1"},
           {"rescale-cost", "s", 30, 0, 86400,
            "cost of a change of allocation for a job that has not measured it"},
           {"as-simulated", "flag", 0, 0, 1,
            "1: as in the publication's simulator, goodput is valued with at most the batch that "
            "the job's user requested, and values are rounded to 0.01"}},
          make_sia};
}

}  // namespace adaptdl
