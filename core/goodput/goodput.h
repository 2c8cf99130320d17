#pragma once

// Goodput: useful training samples per second, the product of throughput (the step-time model) and
// statistical efficiency (the gradient statistics). The runtime uses it to choose the batch, and
// the scheduler to choose replicas.
//
// Source: Pollux (OSDI'21), section 3.

#include <cstdint>

#include "core/goodput/params.h"

namespace adaptdl {

// Seconds. Requires: 1 <= nodes <= replicas, atomic > 0, accum_steps >= 0. O(1), any thread.
double accum_time(const PerfParams& perf, double atomic);
double network_time(const PerfParams& perf, int nodes, int replicas);
double optim_time(const PerfParams& perf, int nodes, int replicas, double atomic);
double step_time(const PerfParams& perf, int nodes, int replicas, double atomic, int accum_steps);

// A job's limits, in samples; total batch M = replicas * atomic * (accum_steps + 1).
struct BatchBounds {
  int64_t initial = 0;  // M0 >= 1: the batch that the learning rate was tuned for
  int64_t max = 0;      // M_max >= M0
  int64_t atomic_min = 1;
  int64_t atomic_max = 0;     // >= atomic_min; 0 = max
  bool accumulation = false;  // accum_steps > 0 allowed
  // A lone replica measures the noise of its gradients in halves of its batch, if accumulation is
  // allowed. Otherwise, as AdaptDL's, it needs at least two passes for a batch above M0.
  bool halves_alone = false;
};

// The most accumulation steps of a choice. Bounds that need more are a mistake, but must not cause
// an overflow.
constexpr int kMostAccumulation = 1'000'000'000;

struct BatchChoice {
  int64_t atomic = 0;  // samples in one replica's forward and backward
  int accum_steps = 0;
  double goodput = 0;  // samples/s

  bool operator==(const BatchChoice&) const = default;
};

// Immutable; any number of threads may use one object.
class GoodputModel {
 public:
  // `initial_batch` is M0 >= 1. Throws Error when a parameter is not finite or is negative.
  GoodputModel(const PerfParams& perf, const GradParams& grad, int64_t initial_batch);

  // Samples/s. Requires as step_time(); zero replicas (and nodes) give zero.
  double throughput(int nodes, int replicas, double atomic, int accum_steps) const;

  // gain / scale at scale = total_batch / M0; in (0, 1] for total_batch >= M0.
  double efficiency(double total_batch) const;

  // throughput * efficiency, samples/s; zero for zero replicas.
  double evaluate(int nodes, int replicas, double atomic, int accum_steps) const;

  // The best (atomic, accum_steps) for a placement among 50 total batches spaced geometrically from
  // max(M0, atomic_min * replicas) to M_max; a tie goes to the smaller batch. Sharing a batch among
  // replicas rounds up, so that the total may exceed M_max by less than replicas * (accum_steps+1).
  // If even atomic_min on each replica exceeds M_max, the answer is atomic_min. Without
  // accumulation one replica keeps M0 (clipped to the atomic bounds), because one gradient per step
  // does not measure the noise that a larger batch would remove. With accumulation, a larger batch
  // takes at least two steps. Requires: 1 <= nodes <= replicas. Throws Error on inconsistent
  // bounds. A few microseconds.
  BatchChoice optimize(int nodes, int replicas, const BatchBounds& bounds) const;

  const PerfParams& perf() const { return perf_; }
  const GradParams& grad() const { return grad_; }

 private:
  PerfParams perf_;
  GradParams grad_;
  double initial_batch_;
};

}  // namespace adaptdl
