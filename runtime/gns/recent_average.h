#pragma once

// The signal-to-noise ratio phi = sqr / var of gradients in the present phase of training, from
// noisy measurements of both.
//
// - Gradients shrink by orders of magnitude while a model is trained. So each measurement is
//   divided by its own mean |g_i|^2 first: every step counts alike, whatever its magnitude, and
//   phi = sum w x / sum w y with x = sqr / |g|^2, y = var / |g|^2.
// - The weights w = scale (c - 1) are those of weighted least squares: with c gradient samples of
//   mostly noise, the variance of x - phi y is proportional to 1 / (c (c - 1)), and y to scale / c.
// - The standard error of phi is that of a ratio of weighted sums whose residuals have unlike
//   variances (White, Econometrica 48, 1980), as for independent measurements.
// - The window is the longest of several exponential ones that does not contradict a shorter one:
//   their confidence intervals must have a point in common (Goldenshluger and Nemirovski,
//   Mathematical Methods of Statistics 6, 1997; Katkovnik, IEEE Transactions on Signal Processing
//   47, 1999). So a steady phase is averaged over thousands of steps, and a change ends that.

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "core/goodput/params.h"

namespace adaptdl::gns {

// What one step measured of one parameter group, at the initial batch.
struct GroupMeasurement {
  double square = 0;  // mean |g_i|^2 of the gradient samples, >= 0
  GradParams params;  // unbiased, so it may be negative
};

// Copyable; not thread-safe. Deterministic: the same measurements give bitwise the same state.
class RecentAverage {
 public:
  RecentAverage() = default;
  explicit RecentAverage(int groups);

  // One step: `count` >= 2 gradient samples at batch scale M/M0 `scale`. `progress` > 0: the scale-
  // invariant iterations since the last measurement, in which windows are measured.
  // Steps without any gradient are not used. Requires: one measurement for each group.
  void add(int count, double scale, const std::vector<GroupMeasurement>& groups, double progress);

  // From here on, averages over the window in use. Before the first measurement: all zero.
  //
  // sqr and var of a group at the present magnitude of gradients; they may be negative.
  GradParams group(int index) const;
  // Standard error of phi of all groups together; infinite for less than two measurements.
  double error() const { return estimate_.error; }
  // Length of the window, scale-invariant iterations.
  double window() const;

  nlohmann::json to_json() const;
  static RecentAverage from_json(const nlohmann::json& json, int groups);  // throws Error

 private:
  // Sums over the past, each measurement multiplied by exp(-its age / window), the second moments
  // by the square of that.
  struct Window {
    double weight = 0;               // w
    std::vector<GradParams> groups;  // w x, w y
    double xx = 0, xy = 0, yy = 0;   // (w x)^2, (w x)(w y), (w y)^2, of all groups together
  };
  struct Estimate {
    double phi = 0, error = 0;
    double measurements = 0;  // effective number, (sum w y)^2 / sum (w y)^2
  };
  static Estimate estimate(const Window& window);
  void choose();

  std::vector<Window> windows_;  // from the shortest to the longest
  double square_ = 0;            // |g|^2, summed over the shortest window with weights w
  // Derived from the above.
  size_t chosen_ = 0;
  Estimate estimate_;
};

}  // namespace adaptdl::gns
