#pragma once

// Chooses the batch of each generation: the user's if fixed, the one with the best goodput if
// adaptive (Pollux, section 3).

#include <optional>
#include <string>

#include "core/job/hints.h"
#include "core/job/training_spec.h"
#include "runtime/profile/batch_chooser.h"
#include "runtime/profile/kind_profiles.h"
#include "runtime/session/prepared.h"
#include "runtime/session/progress.h"

namespace adaptdl {

class BatchPolicy {
 public:
  // `samples`: of the training data.
  BatchPolicy(const TrainingSpec& spec, int64_t samples);

  // The user's total batch M0, shared out among replicas. `atomic_limit`: as in BatchKnowledge.
  BatchPlan initial(int replicas, int64_t atomic_limit = 0) const;

  // For a new generation.
  BatchPlan for_replicas(const Progress& progress, int nodes, int replicas);

  // For the next step of a running generation: the current plan, unless another is worth a change.
  BatchPlan next(const Progress& progress, int nodes, int replicas);

  // Samples of one replica in a forward pass of a validation, where it trains with `atomic`: more,
  // if that is few, as validation need not be slow; at most `atomic_limit` (0 = not known), for
  // which memory suffices.
  int64_t to_validate(int64_t atomic, int64_t atomic_limit) const;

  // The limit for the atomic batch once memory did not suffice for `atomic` samples; nothing if
  // there is no smaller one to try. With shards there is none: others would give other weights.
  std::optional<int64_t> smaller_atomic(int64_t atomic) const;

  // Predicted goodput of the newest choice, samples/s; 0 = unknown.
  double predicted_goodput() const { return predicted_; }
  // What to warn of where steps of `batch` have fewer samples than the user's total batch, as one
  // pass of each replica cannot have more; else "".
  std::string shortfall(const BatchPlan& batch, int replicas) const;
  // Human-readable reason for the newest choice; generic if another replica made the choice.
  const std::string& cause() const { return cause_; }

  // What was measured, by the kind of accelerator.
  KindProfiles& profiles() { return profiles_; }
  const KindProfiles& profiles() const { return profiles_; }

  // Learns the step times.
  void begin_generation() { profiles_.present().begin_generation(); }
  void observe(const StepFacts& facts, int nodes);

  // Hints for the scheduler, without remaining progress and rescale cost; nothing before the first
  // measured step on the present kind of accelerators. Fits the model of each kind: well below a
  // millisecond.
  std::optional<SchedulingHints> hints(const Progress& progress) const;

 private:
  BatchPlan of_shards(int replicas) const;
  BatchKnowledge knowledge(const Progress& progress, int nodes, int replicas) const;

  BatchBounds bounds_;
  BatchChooser chooser_;
  BatchSpec spec_;
  int shards_ = 0;           // TrainingSpec::shards()
  int64_t last_choice_ = 0;  // step
  double predicted_ = 0;
  std::string cause_ = "better predicted goodput";
  KindProfiles profiles_;
};

}  // namespace adaptdl
