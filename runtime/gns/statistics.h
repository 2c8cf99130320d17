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
// They are averaged over the recent part of training (recent_average.h), or as AdaptDL does:
// exponentially over optimizer steps, per parameter group, with the factor 0.999^s per step and
// bias correction. That average follows the magnitude of gradients, so the first steps, whose
// gradients are the largest, rule it for thousands of steps.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "core/goodput/params.h"
#include "core/job/training_spec.h"
#include "runtime/gns/recent_average.h"

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
  using Averaging = TrainingSpec::Averaging;

  GradientStatistics() = default;
  GradientStatistics(int groups, Averaging averaging);

  // One measured step: `count` gradient samples (replicas x passes) at batch scale M/M0 > 0.
  // `steps` >= 1: the number of steps since the last sample, which this one represents, so that
  // measuring only some steps averages over the same part of training. AdaptDL's average gives the
  // sample the weight of as many; the recent one, which knows its error, does not.
  //
  // count == 1 takes the difference of successive gradients instead: local = (|G|^2 + |G'|^2) / 2,
  // total = |(G + G') / 2|^2, c = 2, scale doubled. Parameters change between the two, so such a
  // sample is biased. The first unbiased one drops AdaptDL's averages of these; the recent ones may
  // be of both kinds. Without a previous step (`previous` zero in all groups) the sample is not
  // used.
  //
  // Returns false if the sample was not used: for that reason, or because a number is not finite.
  // Requires: groups.size() == groups().
  bool update(int count, double scale, const std::vector<GroupSample>& groups, double steps = 1);

  int groups() const { return static_cast<int>(sums_.size()); }
  Averaging averaging() const { return averaging_; }
  int64_t samples() const { return samples_; }  // that the averages include
  bool empty() const { return samples_ == 0; }
  bool biased() const { return biased_; }  // the newest sample is

  // Averages without lower bounds, so they may be negative; {1, 0} before the first sample.
  GradParams raw(int group) const;

  // Published values: sums over groups of max(sqr, 0) and max(var, 1e-6).
  double sqr() const { return published().sqr; }
  double var() const { return published().var; }
  GradParams published() const;

  // The published values, with a signal-to-noise ratio sqr / var higher by its standard error: what
  // a choice of batch and rate may count on. AdaptDL's average has no error.
  GradParams cautious() const;

  // Length of the part of training that the averages are of, in scale-invariant iterations; 0
  // before the first sample.
  double window() const;

  // AdaScale gain (var + sqr) / (var / scale + sqr), in [1, scale] for scale >= 1. Of all groups by
  // the published values: the progress of a step, which must be right on average; before the first
  // sample, a step of at most M0 counts by its samples, and a larger one as 1. Of one group by
  // cautious values: what its learning rate may be raised by; 1 before the first sample.
  double gain(double scale) const;
  double gain(double scale, int group) const;

  // State for checkpoints and new replicas; from_json(to_json()) is bitwise the same.
  nlohmann::json to_json() const;
  static GradientStatistics from_json(const nlohmann::json& json);  // throws Error

 private:
  GradParams published(int group) const;
  GradParams cautious(int group) const;
  GradParams with_caution(GradParams params) const;

  Averaging averaging_ = Averaging::recent;
  std::vector<GradParams> sums_;  // exponentially weighted sums; averages are sums / weight
  double weight_ = 0;             // of all samples together, -> 1
  RecentAverage recent_;
  int64_t samples_ = 0;  // in the averages
  bool biased_ = false;
};

}  // namespace adaptdl::gns
