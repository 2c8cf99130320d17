#include "core/policy/sia/sia.h"

#include "core/policy/configuration_round.h"
#include "core/policy/sia/sia_values.h"

namespace adaptdl {
namespace {

struct SiaOptions {
  double p = -0.5, lambda = 1.1, rescale_cost_s = 30;
};

class SiaValuation : public Valuation {
 public:
  SiaValuation(const Snapshot& snapshot, const SiaOptions& options)
      : snapshot_(snapshot), options_(options) {}

  JobValues values(size_t j, std::span<const Configuration> configurations,
                   std::span<GoodputTable> goodput,
                   const std::optional<Configuration>& present) override {
    const JobSnapshot& job = snapshot_.jobs[j];
    const double cost = job.hints.rescale_cost_s.value_or(options_.rescale_cost_s);
    const double change = job.nodes.empty() ? 1 : restart_factor(job.age_s, job.restarts, cost);
    JobValues result{.unassigned = options_.lambda};
    for (const auto& value : sia_values(configurations, goodput, present, change, options_.p)) {
      result.configurations.push_back(value.value);
    }
    return result;
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
  return std::make_unique<Sia>(
      SiaOptions{options.at("p"), options.at("lambda"), options.at("rescale-cost")});
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
            "cost of a change of allocation for a job that has not measured it"}},
          make_sia};
}

}  // namespace adaptdl
