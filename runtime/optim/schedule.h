#pragma once

// The learning-rate schedule of a training archive: a factor on every parameter group's learning
// rate, as a function of progress in scale-invariant iterations (algorithm: AdaScale). Torch-free.

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "core/job/training_spec.h"

namespace adaptdl {

// Parts follow one another, each for its number of epochs; every part gives a factor of its own,
// not multiplied by what the part before it ended at. With t = epochs since the part began:
//   constant     factor
//   step         gamma ^ floor(t / every_epochs)
//   multi_step   gamma ^ (number of milestones <= t)
//   exponential  gamma ^ (t / every_epochs)
//   cosine       final_factor + (1 - final_factor) * (1 + cos(pi * t / epochs)) / 2
//   warmup       start_factor + (1 - start_factor) * t / epochs
//   plateau      1, times gamma whenever `patience` validations in a row plus one have not improved
//                the metric by the relative `threshold`; never below min_factor
// Past the end of the last part, its final factor holds. A pure function of progress but for
// plateau, whose memory state() carries. Not thread-safe.
class Schedule {
 public:
  // `iterations_per_epoch` = samples / M0, > 0 and finite. Requires parts that parse_training_spec
  // accepted: lengths > 0 except for the last part, where 0 means "to the end" (cosine and warmup
  // always have one). No parts: 1 throughout.
  Schedule(std::vector<SchedulePart> parts, double iterations_per_epoch);

  // The factor at `progress` iterations, >= 0 and finite.
  double factor(double progress) const;

  // Tells a plateau part that is current at `progress` the result of a validation; other parts
  // ignore it. A metric that is not a number counts as no improvement. Throws Error when the part
  // watches a metric that `metrics` has not.
  void on_validation(const std::map<std::string, double>& metrics, double progress);

  // True when on_validation can change the schedule.
  bool watches_validation() const;

  // Plateaus' memory, for checkpoints and for newcomers. load_state throws Error when `state` is
  // not of a schedule with the same parts; then nothing changed.
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
