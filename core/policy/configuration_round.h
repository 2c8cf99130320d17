#pragma once

// The common part of policies that choose one configuration for each job (how many replicas, on how
// many nodes, of which kind) so that the sum of their values is least. It lists the configurations,
// asks the policy for their values, solves the integer program (assignment.h), and maps the answer
// to nodes with as few moves as possible (packing.h). A job whose choice does not fit on the nodes
// gets its present nodes or the best configuration that fits. If there is none, another job makes
// room for it where that makes the sum of values less: the program counts GPUs only, and memory,
// cores or nodes that meet a condition may be scarcer.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/goodput/goodput_table.h"
#include "core/policy/configuration.h"
#include "core/policy/policy.h"

namespace adaptdl {

// The values of one job's configurations; smaller is better.
struct JobValues {
  std::vector<double> configurations;  // in their order; infinite: not allowed
  double unassigned = 0;               // without allocation; finite
  double moving = 1;  // lost by a move to other nodes, >= 0; for choosing which jobs to move
};

// The part that differs between these policies. Called once for each job of a round, by index.
class Valuation {
 public:
  virtual ~Valuation() = default;
  virtual JobValues values(size_t job, std::span<const Configuration> configurations,
                           std::span<GoodputTable> goodput,
                           const std::optional<Configuration>& present) = 0;

  // The largest batch with which the job's goodput is valued, if below its own; 0: none.
  virtual int64_t largest_batch(const JobSnapshot&) const { return 0; }

  // The most replicas that the job may have.
  virtual int limit(const JobSnapshot& job) const { return replica_limit(job); }

  // Why a job waits for which there would be a place: the end of a sentence for its user that
  // begins with "it waits because". `runs`, by job: whether it has GPUs in the answer, which is
  // the same in all calls.
  virtual std::string why_waiting(size_t, const std::vector<bool>&) {
    return "other jobs gain more from the GPUs";
  }
};

using MakeValuation = std::function<std::unique_ptr<Valuation>(const Snapshot& snapshot)>;

// Requires: a snapshot that check_snapshot accepts. The objective is the sum of the values. Jobs
// that are not preemptible keep their allocations, and those that settle their configurations. No
// allocation changes if no better answer is found. Calls `make` again if the first answer did not
// fit on the nodes.
Decision decide_by_configuration(const Snapshot& snapshot, const MakeValuation& make,
                                 const SearchBudget& budget);

}  // namespace adaptdl
