#pragma once

// The learning-rate schedule of a training archive: a factor on every parameter group's learning
// rate, as a function of progress in scale-invariant iterations (algorithm: AdaScale). Torch-free.

#include <map>
#include <nlohmann/json_fwd.hpp>
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
//   cosine       final_factor + (1 - final_factor) * (1 + cos(pi * t / epochs)) / 2
//   warmup       start_factor + (1 - start_factor) * t / epochs
//   plateau      1, times gamma after `patience` + 1 validations in a row that do not improve the
//                metric by the relative `threshold`; never below min_factor
// After the end of the last part, its final factor applies. A pure function of progress, except
// for plateau, whose memory is in state(). Not thread-safe.
class Schedule {
 public:
  // `iterations_per_epoch` = samples / M0, > 0 and finite. Requires parts that parse_training_spec
  // accepted: lengths > 0 except for the last part, where 0 means "to the end" (cosine and warmup
  // always have one). No parts: always 1.
  Schedule(std::vector<SchedulePart> parts, double iterations_per_epoch);

  // The factor at `progress` iterations, >= 0 and finite.
  double factor(double progress) const;

  // Passes the result of a validation to the part at `progress` if that is a plateau; other parts
  // ignore it. A metric that is not a number counts as no improvement. Throws Error if `metrics`
  // lacks the metric that the part watches.
  void on_validation(const std::map<std::string, double>& metrics, double progress);

  // True if on_validation can change the schedule.
  bool watches_validation() const;

  // The plateaus' memory, for checkpoints and new replicas. load_state throws Error, and changes
  // nothing, if `state` is not of a schedule with the same parts.
  nlohmann::json state() const;
  void load_state(const nlohmann::json& state);

 private:
  struct Plateau {
    bool has_best = false;
    double best = 0.0;
    int bad = 0;  // validations in a row without improvement
    double factor = 1.0;
  };

  // The part at `progress`, and the epochs since it began, at most its length.
  size_t locate(double progress, double& epochs_into) const;

  std::vector<SchedulePart> parts_;
  std::vector<Plateau> plateaus_;  // one for each part, used by plateau parts
  double iterations_per_epoch_;
};

}  // namespace adaptdl
