#pragma once

// The gradient statistics of a training run: estimates of |true gradient|^2 (sqr) and of the trace
// of the gradient covariance (var), both at the initial batch M0, and values derived from them.
//
// Sources: AdaScale (arXiv 2007.05105), gradient noise scale (arXiv 1812.06162), Pollux (OSDI'21).
// With c gradient samples g_i and their average G at batch scale s = M/M0,
//   local = mean |g_i|^2, total = |G|^2,
//   sqr = (c total - local) / (c - 1), var = (local - total) s / (c - 1).
// Where the gradient samples are means over n_i of n samples that differ, G is the mean over the
// samples, and local = sum |g_i|^2 n_i / n: then both stay unbiased.
// Each is averaged exponentially over optimizer steps, per parameter group, with the factor 0.999^s
// per step and bias correction.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "core/goodput/params.h"

namespace adaptdl::gns {

// Sums of squares for one parameter group and optimizer step, of gradients divided by the
// optimizer's preconditioner.
struct GroupSample {
  double local = 0;     // mean over the c gradient samples of |g_i|^2, weighted by their samples
  double total = 0;     // |G|^2 of their average
  double previous = 0;  // c == 1 only: |G'|^2 of the previous step, and G * G'
  double product = 0;
};

// Copyable; not thread-safe. Deterministic: the same samples give bitwise the same state.
class GradientStatistics {
 public:
  GradientStatistics() = default;
  explicit GradientStatistics(int groups);

  // One measured step: `count` gradient samples (replicas x passes) at batch scale M/M0 > 0.
  // `steps` >= 1: the number of steps since the last sample, which this one represents, so that
  // measuring only some steps averages over the same part of training.
  //
  // count == 1 takes the difference of successive gradients instead: local = (|G|^2 + |G'|^2) / 2,
  // total = |(G + G') / 2|^2, c = 2, scale doubled. Parameters change between the two, so these
  // averages are marked biased, and the first unbiased sample drops them. Without a previous step
  // (`previous` zero in all groups) the sample is not used.
  //
  // Returns false if the sample was not used: for that reason, or because a number is not finite.
  // Requires: groups.size() == groups().
  bool update(int count, double scale, const std::vector<GroupSample>& groups, double steps = 1);

  int groups() const { return static_cast<int>(sums_.size()); }
  bool empty() const { return weight_ == 0; }  // no sample yet
  bool biased() const { return biased_; }

  // Averages without lower bounds, so they may be negative; {1, 0} before the first sample.
  GradParams raw(int group) const;

  // Published values: sums over groups of max(sqr, 0) and max(var, 1e-6).
  double sqr() const { return published().sqr; }
  double var() const { return published().var; }
  GradParams published() const;

  // AdaScale gain (var + sqr) / (var / scale + sqr), in [1, scale] for scale >= 1; of one group, or
  // of all. 1 before the first sample.
  double gain(double scale, int group) const;
  double gain(double scale) const;

  // State for checkpoints and new replicas; from_json(to_json()) is bitwise the same.
  nlohmann::json to_json() const;
  static GradientStatistics from_json(const nlohmann::json& json);  // throws Error

 private:
  GradParams published(int group) const;

  std::vector<GradParams> sums_;  // exponentially weighted sums; averages are sums / weight
  double weight_ = 0;             // of all samples together, -> 1
  bool biased_ = false;
};

}  // namespace adaptdl::gns
