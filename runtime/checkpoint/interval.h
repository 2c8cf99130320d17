#pragma once

// When the next checkpoint is worth its cost: from what a checkpoint costs, and how often the
// replicas fail. Torch-free.
//
// Sources
//   J. W. Young: A first order approximation to the optimum checkpoint interval, Communications of
//     the ACM 17(9), 1974: sqrt(2 C M), for a cost C of a checkpoint and a mean time M between
//     failures.
//   J. T. Daly: A higher order estimate of the optimum checkpoint interval for restart dumps,
//     Future Generation Computer Systems 22(3), 2006, equation 37: the form used here, which also
//     holds where C is not small against M.

namespace adaptdl {

// Of one checkpoint, in seconds, >= 0.
struct CheckpointCost {
  double training_s = 0;  // by which training advances less
  double write_s = 0;     // until it is on disk, in the background
};

// Daly's estimate of the seconds of training between two checkpoints that lose the least time in
// all. Requires: cost_s >= 0, mtbf_s > 0.
double optimal_interval(double cost_s, double mtbf_s);

// The seconds from one checkpoint to the next: the optimum, but at least a second, and long enough
// that the disk is idle for two thirds of the time; and in any case at most `longest_s` (> 0), the
// user's bound. Pure.
double checkpoint_interval(const CheckpointCost& cost, double mtbf_s, double longest_s);

// Estimates the mean time between failures from those seen: (time + prior time) / (failures + prior
// failures), where the prior is a quarter of a failure in ten minutes: one in forty minutes.
// Failures come in bursts (a preempted node, a shortage of memory), so the past counts less with
// its age, by a factor of e for each hour of training. Plain data.
struct FailureHistory {
  double trained_s = 0;  // weighted by age
  double failures = 0;   // likewise

  void trained(double seconds);
  void failed() { failures += 1; }
  double mtbf_s() const;  // > 0
};

}  // namespace adaptdl
