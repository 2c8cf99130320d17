#pragma once

// The frame of policies that choose one configuration for each job (how many replicas, on how many
// nodes, of which kind) so that the sum of their values is least: list the configurations, ask the
// policy what they are worth, solve the integer program (assignment.h), put the answer on nodes
// with as few moves as possible (packing.h). What fits on no node in the end falls back to the
// present nodes or the best configuration that fits.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/goodput/goodput_table.h"
#include "core/policy/configuration.h"
#include "core/policy/policy.h"

namespace adaptdl {

// What one job's configurations are worth; the less the better.
struct JobValues {
  std::vector<double> configurations;  // in their order; infinite: not allowed
  double unassigned = 0;               // without allocation; finite
  double moving = 1;  // lost by a move to other nodes, >= 0; for choosing whom to move
};

// What distinguishes the policies. Called once for each job of a round, by index.
class Valuation {
 public:
  virtual ~Valuation() = default;
  virtual JobValues values(size_t job, std::span<const Configuration> configurations,
                           std::span<GoodputTable> goodput,
                           const std::optional<Configuration>& present) = 0;

  // Most replicas that the job may have.
  virtual int limit(const JobSnapshot& job) const { return replica_limit(job); }
};

using MakeValuation = std::function<std::unique_ptr<Valuation>(const Snapshot& snapshot)>;

// Requires: a snapshot that check_snapshot accepts. The objective is the sum of the values. Jobs
// that are not preemptible keep what they have; nothing changes where nothing better is found. Asks
// for more than one valuation where a first answer did not fit on the nodes.
Decision decide_by_configuration(const Snapshot& snapshot, const MakeValuation& make,
                                 const SearchBudget& budget);

}  // namespace adaptdl
