#include "core/policy/proportional.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

#include "core/policy/change_cost.h"
#include "core/policy/configuration_round.h"
#include "core/policy/job_weights.h"
#include "core/policy/packing.h"

namespace adaptdl {
namespace {

constexpr double kLeastShare = 1e-3;  // smallest share of goodput after the cost of a change

// The least gain of goodput, as a logarithm, for which a job of unknown length takes GPUs that no
// other job waits for: less is within the error of its model.
constexpr double kLeastGain = 0.05;

// The value of running grows with log(1 + age / (service + kPatience * cost)).
constexpr double kImpatience = 0.3, kPatience = 10;

struct ProportionalOptions {
  WeightOptions weights;
  double idle = 0.4, growth = 4, hysteresis = 0.5;
};

// The costs of one job's changes from its present allocation.
struct Change {
  ChangeCost cost;
  double goodput;  // at present, samples/s; infinite: unknown
  double least;    // smallest cost of what makes it slower

  double losing(double waits) const { return std::max(least, cost(waits, goodput)); }
};

class ProportionalValuation : public Valuation {
 public:
  ProportionalValuation(const Snapshot& snapshot, const ProportionalOptions& options)
      : snapshot_(snapshot),
        options_(options),
        weights_(job_weights(snapshot, options.weights)),
        contended_(contended()) {}

  JobValues values(size_t j, std::span<const Configuration> configurations,
                   std::span<GoodputTable> goodput,
                   const std::optional<Configuration>& present) override {
    const JobSnapshot& job = snapshot_.jobs[j];
    double one = 0;  // goodput on one GPU of the slowest kind
    for (GoodputTable& table : goodput) {
      const double here = table.at(1, 1);
      if (one == 0 || here < one) one = here;
    }
    const auto goodput_of = [&](const Configuration& c) {
      return goodput[static_cast<size_t>(c.kind)].at(c.nodes, c.replicas);
    };
    const ChangeCost cost(job, options_.weights.rescale_cost_s);
    // Weights by attained service change all the time; without a least cost, jobs of unknown length
    // would exchange nodes forever if rescales are cheap.
    const double least = cost.knows_end() ? 0 : options_.hysteresis;
    std::optional<Change> change;
    if (present) change = Change{cost, goodput_of(*present), least};
    // The longer a job has waited relative to its service, the more valuable it is that it runs.
    const double patience_s = job.attained_service + kPatience * std::max(cost.whole_s(), 1e-3);
    const double running = options_.idle + kImpatience * std::log1p(job.age_s / patience_s);
    JobValues result;
    // The least loss of its configurations, apart from what it is worth that it runs.
    double best = configurations.empty() ? 0 : std::numeric_limits<double>::infinity();
    for (const Configuration& c : configurations) {
      const double there = goodput_of(c);
      const double x = one > 0 && std::isfinite(there) ? there / one : 1;
      const double lost = change && c != *present ? cost_of_change(*change, *present, c, there) : 0;
      const double loss = lost - std::log(std::max(x, kLeastShare));
      result.configurations.push_back(weights_[j] * (loss - running));
      best = std::min(best, loss);
    }
    // Leaving its nodes always costs a job something, also if it then waits, because it must start
    // all replicas again later. (So a second round does not undo the first.) And that it runs is
    // worth something even to a job whose every choice is bad, as one whose replicas hinder each
    // other and that may not have fewer: else it would wait though nobody wants the GPUs.
    result.unassigned = weights_[j] * std::max(change ? change->losing(1) : 0, best);
    if (change) result.moving = weights_[j] * change->losing(0);
    return result;
  }

  int limit(const JobSnapshot& job) const override { return replica_limit(job, options_.growth); }

  std::string why_waiting(size_t j, const std::vector<bool>& runs) override {
    if (running_weights_.empty()) {
      for (size_t i = 0; i < runs.size(); ++i) {
        if (runs[i]) running_weights_.push_back(weights_[i]);
      }
      std::sort(running_weights_.begin(), running_weights_.end());
    }
    const auto above =
        std::upper_bound(running_weights_.begin(), running_weights_.end(), weights_[j]);
    const auto before = running_weights_.end() - above;
    if (before == 0) {
      return "stopping another job would cost more than that gains so far; its weight grows while "
             "it waits";
    }
    return fmt::format("{} running job{} will probably end sooner than it would", before,
                       before == 1 ? "" : "s");
  }

 private:
  // While a job grows, its present replicas train until the new ones take part; on another kind of
  // accelerator all are new.
  double cost_of_change(const Change& change, const Configuration& present, const Configuration& c,
                        double there) const {
    const bool known = std::isfinite(there) && there > 0;
    const double missing = known ? 1 - change.goodput / there : 0;
    const double waits = c.kind != present.kind ? 1 : c.replicas > present.replicas ? missing : 0;
    const bool free_gain = !contended_ && known && there > change.goodput;
    return std::max(free_gain ? std::min(change.least, kLeastGain) : change.least,
                    change.cost(waits, known ? there : change.goodput));
  }

  // Whether a job that could run on empty nodes has waited for longer than its start takes: then
  // what a job frees is not at its neighbours' disposal.
  bool contended() const {
    const NodeKinds kinds(snapshot_);
    return std::any_of(snapshot_.jobs.begin(), snapshot_.jobs.end(), [&](const JobSnapshot& job) {
      if (!job.nodes.empty()) return false;
      if (job.age_s <= ChangeCost(job, options_.weights.rescale_cost_s).whole_s()) return false;
      const int64_t least = std::max(1, job.min_replicas);
      return std::ranges::any_of(kinds.nodes, [&](const NodeList& members) {
        int64_t left = least;
        for (const int node : members) left -= fits_empty(snapshot_, job, node, left);
        return left == 0;
      });
    });
  }

  const Snapshot& snapshot_;
  const ProportionalOptions& options_;
  std::vector<double> weights_, running_weights_;  // the latter sorted
  bool contended_;
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
  result.weights = {options.at("preference"), options.at("service-exponent"),
                    options.at("least-weight"), options.at("rescale-cost")};
  result.idle = options.at("idle");
  result.growth = options.at("growth");
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
       {"service-exponent", "", 0.5, 0, 2,
        "advantage of jobs that have had few GPU seconds, or that need few if they are like jobs "
        "that have ended, if their remaining work is not known; 0: none"},
       {"least-weight", "", 0.2, 0, 1, "smallest weight of a job; the mean is 1"},
       {"idle", "", 0.4, 0, 20,
        "value of running a job at all: the same as making it exp(idle) times as fast"},
       {"hysteresis", "", 0.5, 0, 10,
        "smallest cost of a change that makes a job slower, as a logarithm of goodput, if its "
        "remaining work is not known; 0.5 is like losing 40 % of its goodput"},
       {"growth", "", 4, 1, 1024, "a job gets at most growth times the replicas measured so far"},
       {"rescale-cost", "s", 30, 0, 86400,
        "cost of a change of allocation for a job that has not measured it"}},
      make_proportional};
}

}  // namespace adaptdl
