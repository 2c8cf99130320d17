#pragma once

// Goodput: useful training samples per second, the product of throughput (the step-time model) and
// statistical efficiency (the gradient statistics). One arithmetic for the runtime, which chooses
// its batch by it, and for the scheduler, which chooses replicas.
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

// What a job allows. Samples; total batch M = replicas * atomic * (accum_steps + 1).
struct BatchBounds {
  int64_t initial = 0;  // M0 >= 1: the batch that the learning rate was tuned for
  int64_t max = 0;      // M_max >= M0
  int64_t atomic_min = 1;
  int64_t atomic_max = 0;     // >= atomic_min; 0 = max
  bool accumulation = false;  // accum_steps > 0 allowed
};

// A choice accumulates no more steps than this, whatever the bounds ask for: what would need them
// is a mistake, but no reason to overflow.
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
  // Where even atomic_min on each replica exceeds M_max, that is the answer. Without accumulation
  // one replica keeps M0 (clipped to the atomic bounds): one gradient per step says nothing about
  // the noise that a larger batch would remove; with it, a larger batch takes two steps at least.
  // Requires: 1 <= nodes <= replicas. Throws Error on inconsistent bounds. A few microseconds.
  BatchChoice optimize(int nodes, int replicas, const BatchBounds& bounds) const;

  const PerfParams& perf() const { return perf_; }
  const GradParams& grad() const { return grad_; }

 private:
  PerfParams perf_;
  GradParams grad_;
  double initial_batch_;
};

}  // namespace adaptdl
