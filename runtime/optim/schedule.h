#pragma once

// The learning-rate schedule of a training archive: a factor on every parameter group's learning
// rate, as a function of progress in scale-invariant iterations (algorithm: AdaScale). Torch-free.

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/job/training_spec.h"

namespace adaptdl {

// Parts follow one another, each for its number of epochs. Every part gives its own factor, which
// is not multiplied by the final factor of the previous part. With t = epochs since the part began:
//   constant     factor
//   step         gamma ^ floor(t / every_epochs)
//   multi_step   gamma ^ (number of milestones <= t)
//   exponential  gamma ^ (t / every_epochs)
//   linear       start_factor + (final_factor - start_factor) * t / epochs
//   polynomial   final_factor + (1 - final_factor) * (1 - t / epochs) ^ power
//   cosine       final_factor + (1 - final_factor) * (1 + cos(pi * t / epochs)) / 2
//   cosine_restarts  such a wave every every_epochs; each is `multiplier` times as long as the last
//   one_cycle    up from 1 / div_factor to 1 for pct_start of the part, then down to 1 / div_factor
//                / final_div_factor (three_phase: first down to 1 / div_factor as fast as up)
//   warmup       start_factor + (1 - start_factor) * t / epochs
//   plateau      1, times gamma after `patience` + 1 validations in a row that do not improve the
//                metric by `threshold`, which is relative to its best value or absolute; never
//                below min_factor. The next `cooldown` validations do not count.
// These are torch.optim.lr_scheduler's, stepped once an iteration (plateau: once a validation),
// with progress in the place of the number of steps. After the end of the last part, its final
// factor applies. A pure function of progress, except for plateau, whose memory is in state(). Not
// thread-safe.
class Schedule {
 public:
  // `iterations_per_epoch` = samples / M0, > 0 and finite. Requires parts that parse_training_spec
  // accepted: lengths > 0 except for the last part, where 0 means "to the end" (parts whose formula
  // has their length always have one). No parts: always 1.
  Schedule(std::vector<SchedulePart> parts, double iterations_per_epoch);

  // The factor at `progress` iterations, >= 0 and finite.
  double factor(double progress) const;

  // The momentum (Adam and its like: beta1) at `progress`, in place of the optimizer's, where a
  // part cycles it: of one_cycle, from max_momentum to base_momentum as the factor rises, and back.
  std::optional<double> momentum(double progress) const;

  // Passes the result of a validation to the part at `progress` if that is a plateau; other parts
  // ignore it. A metric that is not a number counts as no improvement. Throws Error if `metrics`
  // lacks the metric that the part watches.
  void on_validation(const std::map<std::string, double>& metrics, double progress);

  // True if on_validation can change the schedule.
  bool watches_validation() const;

  // Throws Error, as on_validation, if a plateau watches none of `metrics`.
  void check_metrics(const std::set<std::string>& metrics) const;

  double iterations_per_epoch() const { return iterations_per_epoch_; }

  // The plateaus' memory, for checkpoints and new replicas. load_state throws Error, and changes
  // nothing, if `state` is not of a schedule with the same parts.
  nlohmann::json state() const;
  void load_state(const nlohmann::json& state);

 private:
  struct Plateau {
    bool has_best = false;
    double best = 0.0;
    int bad = 0;       // validations in a row without improvement
    int cooldown = 0;  // validations to come that do not count
    double factor = 1.0;
  };

  // The part at `progress`, and the epochs since it began, at most its length.
  size_t locate(double progress, double& epochs_into) const;

  std::vector<SchedulePart> parts_;
  std::vector<Plateau> plateaus_;  // one for each part, used by plateau parts
  double iterations_per_epoch_;
};

}  // namespace adaptdl
