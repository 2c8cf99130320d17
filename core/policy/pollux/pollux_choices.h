#pragma once

// The choices of each job, independent of the other jobs, and prices at which the jobs' best
// choices fit into the cluster.

#include <vector>

#include "core/policy/pollux/pollux_allocation.h"

namespace adaptdl {

struct PolluxChoice {
  int kind = 0;
  int replicas = 0;   // 0: waits
  int spanned = 0;    // number of nodes, at least, if on several; else 0
  bool keep = false;  // its present allocation
  double gpus = 0;    // price units, see PolluxProblem::weight
  double value = 0;   // PolluxObjective::value
};

// Prices of one accelerator, and of the right to span a node, by kind; in units of value.
struct PolluxPrices {
  std::vector<double> gpu, node;
};

// One snapshot prepared for the search: its jobs' choices, and the resources not held by jobs that
// may not move. Borrows its arguments.
struct PolluxProblem {
  PolluxProblem(const Snapshot& snapshot, const PolluxOptions& options);

  double value(int job, int kind, bool several, int replicas);
  // Of any row.
  double value(int job, const PolluxRow& row);

  // Accelerators that a replica takes. If another resource is scarcer, the number of accelerators
  // that corresponds to the replica's share of that resource.
  double weight(int job, int kind) const;

  const Snapshot& snapshot;
  PolluxObjective objective;
  PolluxAllocation pinned;         // only the jobs that may not move
  std::vector<char> movable;       // by job
  std::vector<PolluxRow> present;  // by job; empty also if the job may not keep it
  std::vector<int> least, most;    // replicas, by job; least >= 1
  std::vector<double> idle_value;  // by job
  std::vector<std::vector<PolluxChoice>>
      choices;                      // by job: waiting, keeping, then by kind and size
  std::vector<double> gpus, nodes;  // free beside pinned jobs, by kind: weight, nodes to span

 private:
  void set_bounds(int job);
  void list_choices(int job);

  std::vector<std::vector<double>> totals_;  // kind, resource
};

}  // namespace adaptdl
