#pragma once

// What each job could be given, wherever the others are, and prices that make the jobs' own best
// choices fit together.

#include <vector>

#include "core/policy/pollux/pollux_allocation.h"

namespace adaptdl {

struct PolluxChoice {
  int kind = 0;
  int replicas = 0;   // 0: waits
  int spanned = 0;    // at least so many nodes if on several, else 0
  bool keep = false;  // what it has now
  double gpus = 0;    // price units, see PolluxProblem::weight
  double value = 0;   // PolluxObjective::value
};

// Of one accelerator, and of the right to span a node, by kind; in units of value.
struct PolluxPrices {
  std::vector<double> gpu, node;
};

// One snapshot prepared for the search: its jobs' choices, and the room that is left beside jobs
// that may not move. Borrows its arguments.
struct PolluxProblem {
  PolluxProblem(const Snapshot& snapshot, const PolluxOptions& options);

  double value(int job, int kind, bool several, int replicas);
  // Of any row.
  double value(int job, const PolluxRow& row);

  // Accelerators that a replica takes; where another resource is scarcer, as many as correspond to
  // its share of that.
  double weight(int job, int kind) const;

  const Snapshot& snapshot;
  PolluxObjective objective;
  PolluxAllocation pinned;         // jobs that may not move, and nothing else
  std::vector<char> movable;       // by job
  std::vector<PolluxRow> present;  // by job; empty also where it may not be kept
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
