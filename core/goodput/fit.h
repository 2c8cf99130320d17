#pragma once

// Fits the step-time model to measured steps.

#include <span>

#include "core/goodput/params.h"

namespace adaptdl {

// Mean step times (seconds, > 0) at one placement and atomic batch.
struct PerfObservation {
  int nodes = 1;  // 1 <= nodes <= replicas
  int replicas = 1;
  double atomic = 0;      // samples, > 0
  double accum_time = 0;  // forward and backward without gradient synchronisation
  double optim_time = 0;  // a whole step whose gradients are synchronised, without accumulation
};

// What the fit minimises:
//   RMSE of log accum_time + RMSE of log optim_time + 1e-3 (gamma - 1)^2
//   + 1e-2 ((beta_n / alpha_n)^2 + (beta_r / alpha_r)^2)
// Requires: parameters within the fit's bounds, observations valid and not empty.
double fit_objective(const PerfParams& params, std::span<const PerfObservation> observations);

// The best parameters within alpha, beta >= 1e-8 and gamma in [1, 10]. Rules set the parameters
// that no observation determines, optimistically, so that a scheduler tries them (Pollux, section
// 4.1):
//  - one distinct atomic batch: alpha_c = mean(accum_time) / 2;
//  - no observation on several nodes: alpha_n, beta_n stay out of the fit, and are then
//    max(1e-8, 1.1 alpha_r), max(1e-8, 1.1 beta_r);
//  - none on one node with several replicas: alpha_r = beta_r = 1e-8;
//  - none with more than two replicas: beta_n = beta_r = 1e-8 in the fit.
// Deterministic: the same observations in the same order give the same bits on the same machine.
// Any thread; 50 observations take less than 1 ms. Throws Error if there is no observation, or one
// is not finite, not positive, or violates 1 <= nodes <= replicas.
PerfParams fit_perf_params(std::span<const PerfObservation> observations);

}  // namespace adaptdl
