#pragma once

// Where training stands, but for the tensors: small, copied for every step, the same on all
// replicas, saved in checkpoints and sent to newcomers.

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/data/sampler.h"
#include "runtime/gns/statistics.h"

namespace adaptdl {

// How a total batch is made: replicas x atomic x micro_steps samples.
struct BatchPlan {
  int64_t atomic = 0;   // samples that one replica takes in one forward/backward
  int micro_steps = 1;  // forward/backward passes for each optimizer step (accumulation + 1)
  int64_t total(int replicas) const { return atomic * micro_steps * replicas; }
  bool operator==(const BatchPlan&) const = default;
};

struct Progress {
  int64_t tick = 0;         // steps and validations finished; orders all that can be prepared
  int64_t step = 0;         // optimizer steps finished, skipped ones included
  double iterations = 0;    // scale-invariant: sum of gains (Pollux, section 3)
  data::Position position;  // the next sample
  BatchPlan batch;
  int batch_replicas = 0;     // how many replicas `batch` was chosen for; 0 = not chosen
  bool measure = true;        // gradient statistics in the next step
  int64_t measured = 0;       // steps that the gradient statistics have seen
  int64_t last_measured = 0;  // the newest of them
  int64_t skipped = 0;        // steps without an update, as the loss was not finite
  int skipped_in_a_row = 0;
  double epoch_loss_sum = 0;  // since the epoch began, weighted by samples
  double epoch_samples = 0;
  bool validate = false;       // a validation is due before the next step
  double next_validation = 0;  // epochs done at which the one after is due
  bool finished = false;
  std::map<std::string, double> validation;  // newest metrics
  gns::GradientStatistics statistics;
};

// Equal on replicas whose progress is equal to the last bit; differs, almost surely, otherwise.
uint64_t digest(const Progress& progress);

nlohmann::json to_json(const Progress& progress);
// Throws Error when `json` is not what to_json() wrote.
Progress progress_from_json(const nlohmann::json& json);

}  // namespace adaptdl
