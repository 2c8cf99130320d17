#pragma once

// Chooses the batch of a run: the user's, spread over the replicas, until the measurements suffice
// to choose the one with the best goodput.

#include <optional>

#include "core/goodput/goodput.h"

namespace adaptdl {

// What a run has measured.
struct BatchKnowledge {
  std::optional<PerfParams> perf;
  GradParams grad;
  int64_t timed_steps = 0;       // steps in the profile with the current placement and batch
  int64_t gradient_samples = 0;  // included in `grad`
  int64_t fresh_samples = 0;     // of them, since the batch last changed
  int64_t proven_batch = 0;      // the largest total batch with enough of them; 0 = none
  // Memory does not suffice for larger ones, so a step may take more passes even where the bounds
  // do not have accumulation; 0 = not known.
  int64_t atomic_limit = 0;
};

struct BetterBatch : BatchChoice {
  double times = 1;  // its goodput as a multiple of the current one
};

// Immutable and pure: equal arguments give equal results on all replicas. There is no exploration:
// a batch is tried only if the model predicts a better goodput. The model is optimistic about
// batches that were never measured, and an estimate says little about batches far above those that
// it is from. So a choice at most doubles the largest batch that was measured (kFastest), and
// waits for measurements with the present one.
class BatchChooser {
 public:
  // A new batch must promise a goodput above 1.05 times the current one.
  static constexpr double kWorthwhile = 1.05;
  // Fewer steps or gradient samples than this are too few to use.
  static constexpr int64_t kEnough = 10;
  static constexpr int64_t kFastest = 2;

  // Throws Error for inconsistent bounds. With `adaptive` false the total batch stays M0.
  BatchChooser(const BatchBounds& bounds, bool adaptive);

  // M0 over the replicas with as few passes as the atomic bounds allow, rounded up, so that the
  // total may exceed M0 by less than replicas * passes. Its goodput is not computed (0).
  // `atomic_limit`: as in BatchKnowledge.
  BatchChoice spread(int replicas, int64_t atomic_limit = 0) const;

  // For a new placement: the best known batch, or spread() while too little is known.
  BatchChoice start(int nodes, int replicas, const BatchKnowledge& known) const;

  // While training: another (atomic, accum_steps) if it is worthwhile and enough is known.
  std::optional<BetterBatch> improve(int nodes, int replicas, const BatchChoice& present,
                                     const BatchKnowledge& known) const;

 private:
  BatchBounds within(int64_t atomic_limit) const;
  BatchBounds reachable(const BatchKnowledge& known) const;

  BatchBounds bounds_;
  bool adaptive_;
};

}  // namespace adaptdl
