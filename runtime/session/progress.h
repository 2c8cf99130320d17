#pragma once

// The training state other than tensors. It is small, copied in every step, equal on all replicas,
// saved in checkpoints and sent to new replicas.

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "runtime/data/sampler.h"
#include "runtime/gns/statistics.h"
#include "runtime/session/precision.h"

namespace adaptdl {

// Composition of the total batch: replicas x atomic x micro_steps samples. A step that is cut into
// shards has `fixed` samples, and one or more passes less on some replicas.
struct BatchPlan {
  int64_t atomic = 0;   // samples of one replica in one forward/backward pass
  int micro_steps = 1;  // forward/backward passes per optimizer step (accumulation + 1)
  int64_t fixed = 0;    // samples of a step whatever the replicas; 0: as above
  int64_t total(int replicas) const { return fixed > 0 ? fixed : atomic * micro_steps * replicas; }
  bool operator==(const BatchPlan&) const = default;
};

// Why training ended, or will end after the last validation.
enum class EndedBy : int { nothing, epochs, max_steps, max_time, early_stopping, program };

struct Progress {
  int64_t tick = 0;         // steps and validations finished; numbers what a member prepares
  int64_t step = 0;         // optimizer steps finished, skipped ones included
  double iterations = 0;    // sum of gains (Pollux, section 3); with a fixed batch, of M / M0
  data::Position position;  // the next sample
  // Of a step in which several models take turns: their updates so far, which others repeat if the
  // step is begun again; the sum of their losses, and whether one was left out.
  int turn = 0;
  double turn_loss = 0;
  bool turn_skipped = false;
  BatchPlan batch;
  int64_t batch_since = 0;    // step after which `batch` was chosen
  int64_t fresh = 0;          // steps measured since then
  int64_t proven = 0;         // samples of the largest batch that was measured often enough
  int64_t atomic_limit = 0;   // largest atomic batch that memory suffices for; 0 = not known
  int batch_replicas = 0;     // number of replicas that `batch` was chosen for; 0 = not chosen
  bool measure = true;        // measure gradient statistics in the next step
  int64_t last_measured = 0;  // the newest step in the statistics
  LossScale loss_scale;
  int64_t skipped = 0;  // steps without an update: loss or gradient were not finite
  int skipped_in_a_row = 0;
  double epoch_loss_sum = 0;  // since the epoch began, weighted by samples
  double epoch_samples = 0;
  std::map<std::string, double> sums;  // the program's own, of the newest epoch with a step
  bool validate = false;               // a validation is due before the next step
  double next_validation = 0;          // finished epochs at which the following validation is due
  bool finished = false;
  EndedBy ended_by = EndedBy::nothing;
  double trained_s = 0;  // sum of the times from step to step, of the slowest replica in each
  std::map<std::string, double> validation;  // newest metrics
  std::map<std::string, double> best;        // the metric that is watched, at its best; or empty
  int64_t best_step = 0;                     // of that validation
  double to_improve = 0;                     // early stopping: the metric at the last improvement
  int validations_since = 0;                 // and the number of validations after it
  gns::GradientStatistics statistics;
};

// Equal on replicas with bitwise equal progress; otherwise it almost surely differs.
uint64_t digest(const Progress& progress);

nlohmann::json to_json(const Progress& progress);
// Throws Error if to_json() did not write `json`.
Progress progress_from_json(const nlohmann::json& saved);

}  // namespace adaptdl
