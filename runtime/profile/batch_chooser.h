#pragma once

// Which batch a run trains with: the user's, spread over the replicas, until enough is known to
// pick the one of the best goodput.

#include <optional>

#include "core/goodput/goodput.h"

namespace adaptdl {

// What a run has learnt.
struct BatchKnowledge {
  std::optional<PerfParams> perf;
  GradParams grad;
  int64_t timed_steps = 0;       // counted by the step profile with the present placement and batch
  int64_t gradient_samples = 0;  // taken into `grad`
};

struct BetterBatch : BatchChoice {
  double times = 1;  // its goodput as a multiple of the present one's
};

// Immutable and pure: replicas that ask the same get the same. There is no exploration: a batch is
// tried only when the model, which is optimistic about what was never seen, predicts a better one.
class BatchChooser {
 public:
  // A change of batch must promise this much: goodput above 1.05 times the present one's.
  static constexpr double kWorthwhile = 1.05;
  // Fewer steps or gradient samples than this say nothing yet.
  static constexpr int64_t kEnough = 10;

  // Throws Error on bounds that do not fit together. With `adaptive` false the total batch stays
  // M0.
  BatchChooser(const BatchBounds& bounds, bool adaptive);

  // M0 over the replicas with as few passes as the atomic bounds allow, rounded up, so that the
  // total may exceed M0 by less than replicas * passes. Its goodput is not computed (0).
  BatchChoice spread(int replicas) const;

  // For a placement that has just begun: the best known, or spread() while too little is known.
  BatchChoice start(int nodes, int replicas, const BatchKnowledge& known) const;

  // While training: another (atomic, accum_steps), when it is worthwhile and enough is known.
  std::optional<BetterBatch> improve(int nodes, int replicas, const BatchChoice& present,
                                     const BatchKnowledge& known) const;

 private:
  BatchBounds bounds_;
  bool adaptive_;
};

}  // namespace adaptdl
