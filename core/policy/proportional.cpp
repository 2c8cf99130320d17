#include "core/policy/proportional.h"

#include <algorithm>
#include <cmath>

#include "core/policy/configuration_round.h"
#include "core/policy/job_weights.h"

namespace adaptdl {
namespace {

constexpr double kLeastShare = 1e-3;  // smallest share of goodput after the cost of a change

struct ProportionalOptions {
  WeightOptions weights;
  double idle = 2, horizon_s = 100, growth = 4, rescale_cost_s = 30, hysteresis = 0.35;
};

// The cost of leaving the present allocation; 0 if the job has none.
struct Change {
  Change(const JobSnapshot& job, std::span<GoodputTable> tables,
         const std::optional<Configuration>& present, const ProportionalOptions& options) {
    if (!present) return;
    goodput = tables[static_cast<size_t>(present->kind)].at(present->nodes, present->replicas);
    horizon_s = options.horizon_s;
    least = options.hysteresis;
    rescale_s = job.hints.rescale_cost_s.value_or(options.rescale_cost_s);
    start_s = job.hints.start_cost_s.value_or(0);
    const auto samples = remaining_samples(job.hints);
    if (!samples || !(goodput > 0)) return;
    least = 0;
    horizon_s = std::min(horizon_s, *samples / goodput);
  }

  // -log of the share of its goodput that is left over the horizon, if the fraction `waits` (0 to
  // 1) is missing while new replicas start. Weights by attained service change all the time;
  // without a least cost, jobs of unknown length would exchange nodes forever if rescales are
  // cheap.
  double cost(double waits) const {
    if (horizon_s < 0) return 0;
    const double lost = rescale_s + start_s * std::clamp(waits, 0.0, 1.0);
    const double left = std::max(kLeastShare, lost < horizon_s ? 1 - lost / horizon_s : 0);
    return std::max(least, -std::log(left));
  }

  double goodput = 0;     // at present, samples/s; infinite: unknown
  double horizon_s = -1;  // < 0: no allocation
  double least = 0, rescale_s = 0, start_s = 0;
};

class ProportionalValuation : public Valuation {
 public:
  ProportionalValuation(const Snapshot& snapshot, const ProportionalOptions& options)
      : snapshot_(snapshot), options_(options), weights_(job_weights(snapshot, options.weights)) {}

  JobValues values(size_t j, std::span<const Configuration> configurations,
                   std::span<GoodputTable> goodput,
                   const std::optional<Configuration>& present) override {
    const JobSnapshot& job = snapshot_.jobs[j];
    double one = 0;  // goodput on one GPU of the slowest kind
    for (GoodputTable& table : goodput) {
      const double here = table.at(1, 1);
      if (one == 0 || here < one) one = here;
    }
    // Leaving its nodes always costs a job something, also if it then waits, because it must start
    // again later. (So a second round does not undo the first.)
    const Change change(job, goodput, present, options_);
    const double leaving = change.cost(0);
    // The longer a job has waited relative to its service, the more valuable it is that it runs.
    const double waited = std::log1p(job.age_s / (job.attained_service + options_.horizon_s));
    // After a stop, it must start all replicas again; while it grows, its present replicas continue
    // until the new ones take part.
    JobValues result{.unassigned = weights_[j] * change.cost(1), .moving = weights_[j] * leaving};
    for (const Configuration& c : configurations) {
      const double there = goodput[static_cast<size_t>(c.kind)].at(c.nodes, c.replicas);
      const double x = one > 0 && std::isfinite(there) ? there / one : 1;
      const double utility = std::log(std::max(x, kLeastShare)) + options_.idle + waited;
      double lost = 0;
      if (present && c != *present) {
        const bool known = std::isfinite(there) && there > 0;
        const double missing = known ? 1 - change.goodput / there : 0;
        lost = c.replicas > present->replicas ? change.cost(missing) : leaving;
      }
      result.configurations.push_back(-weights_[j] * (utility - lost));
    }
    return result;
  }

  int limit(const JobSnapshot& job) const override { return replica_limit(job, options_.growth); }

 private:
  const Snapshot& snapshot_;
  const ProportionalOptions& options_;
  std::vector<double> weights_;
};

class Proportional : public Policy {
 public:
  explicit Proportional(const ProportionalOptions& options) : options_(options) {}

  Decision decide(const Snapshot& snapshot, uint64_t, const SearchBudget& budget) override {
    check_snapshot(snapshot);
    const auto value = [this](const Snapshot& seen) {
      return std::make_unique<ProportionalValuation>(seen, options_);
    };
    Decision decision = decide_by_configuration(snapshot, value, budget);
    decision.objective = -decision.objective;
    return decision;
  }

 private:
  ProportionalOptions options_;
};

std::unique_ptr<Policy> make_proportional(const std::map<std::string, double>& options) {
  ProportionalOptions result;
  result.weights = {options.at("preference"), options.at("service-exponent"), options.at("young"),
                    options.at("least-weight")};
  result.idle = options.at("idle");
  result.horizon_s = options.at("horizon");
  result.growth = options.at("growth");
  result.rescale_cost_s = options.at("rescale-cost");
  result.hysteresis = options.at("hysteresis");
  return std::make_unique<Proportional>(result);
}

}  // namespace

PolicyInfo proportional_policy() {
  return {
      "proportional",
      "shares by goodput for short completion times: the default",
      {{"preference", "", 6, 1, 20,
        "largest advantage of jobs that will soon complete, if their remaining work is known and "
        "they scale well; 1: none"},
       {"service-exponent", "", 0.25, 0, 2,
        "advantage of jobs that have had few GPU seconds, if their remaining work is not known; 0: "
        "none"},
       {"young", "s", 60, 1, 86400, "GPU seconds that count as few"},
       {"least-weight", "", 0.2, 0, 1, "smallest weight of a job; the mean is 1"},
       {"idle", "", 2, 0, 20,
        "value of running a job at all: the same as making it exp(idle) times as fast"},
       {"horizon", "s", 100, 1, 86400, "time within which a change of allocation must pay off"},
       {"hysteresis", "", 0.35, 0, 10,
        "smallest cost of a change, as a logarithm of goodput, for a job whose remaining work is "
        "not known; 0.35 is like losing 30 % of its goodput"},
       {"growth", "", 4, 1, 1024, "a job gets at most growth times the replicas measured so far"},
       {"rescale-cost", "s", 30, 0, 86400,
        "cost of a change of allocation for a job that has not measured it"}},
      make_proportional};
}

}  // namespace adaptdl
