#pragma once

// The terms of Pollux's objective for one snapshot, computed on first use. Internal to core/policy;
// other code uses pollux.h.

#include <string>
#include <vector>

#include "core/goodput/goodput_table.h"
#include "core/policy/pollux/pollux.h"

namespace adaptdl {

// Accelerator kinds are numbered from 0 in the order of their names. Borrows the snapshot. One
// thread at a time.
class PolluxObjective {
 public:
  PolluxObjective(const Snapshot& snapshot, const PolluxOptions& options);

  int kinds() const { return static_cast<int>(kind_names_.size()); }
  int kind_of(int node) const { return kind_of_[static_cast<size_t>(node)]; }

  // The speedup with `replicas` >= 0 on one node or on several nodes of that kind.
  double speedup(int job, int kind, bool several_nodes, int replicas);

  // The factor by which a change of its allocation reduces the job's speedup, [0, 1].
  double change_factor(int job) const { return factor_[static_cast<size_t>(job)]; }

  // A job's term of the sum that the search maximises. It increases with the speedup, and the sum
  // over jobs orders allocations as fitness does.
  double value(double speedup_times_factor) const;
  double fitness(double sum_of_values) const;

 private:
  double fairness_;
  double nodes_per_gpu_ = 1;
  double jobs_;
  std::vector<std::string> kind_names_;
  std::vector<int> kind_of_;
  std::vector<std::vector<GoodputTable>> tables_;  // job, kind
  std::vector<double> base_;                       // goodput of the fair share
  std::vector<double> factor_;
};

}  // namespace adaptdl
