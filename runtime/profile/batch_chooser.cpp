#include "runtime/profile/batch_chooser.h"

#include <algorithm>

#include "core/base/error.h"

namespace adaptdl {
namespace {

int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

BatchChooser::BatchChooser(const BatchBounds& bounds, bool adaptive)
    : bounds_(bounds), adaptive_(adaptive) {
  if (bounds_.max == 0) bounds_.max = bounds_.initial;
  if (bounds_.atomic_max == 0) bounds_.atomic_max = bounds_.max;
  if (bounds_.initial < 1 || bounds_.max < bounds_.initial || bounds_.atomic_min < 1 ||
      bounds_.atomic_max < bounds_.atomic_min) {
    fail("inconsistent batch bounds: initial {}, max {}, atomic {} to {}", bounds_.initial,
         bounds_.max, bounds_.atomic_min, bounds_.atomic_max);
  }
}

BatchBounds BatchChooser::within(int64_t atomic_limit) const {
  BatchBounds bounds = bounds_;
  if (atomic_limit > 0) {
    bounds.accumulation = true;  // else the batch could not stay what it is
    bounds.atomic_max = std::max(bounds.atomic_min, std::min(bounds.atomic_max, atomic_limit));
  }
  return bounds;
}

BatchChoice BatchChooser::spread(int replicas, int64_t atomic_limit) const {
  ADAPTDL_CHECK(replicas >= 1);
  const BatchBounds bounds = within(atomic_limit);
  const int64_t local = divide_up(bounds.initial, replicas);
  const int64_t passes = bounds.accumulation ? divide_up(local, bounds.atomic_max) : 1;
  BatchChoice choice;
  choice.atomic = std::clamp(divide_up(local, passes), bounds.atomic_min, bounds.atomic_max);
  choice.accum_steps = static_cast<int>(passes - 1);
  return choice;
}

BatchBounds BatchChooser::reachable(const BatchKnowledge& known) const {
  BatchBounds bounds = within(known.atomic_limit);
  bounds.max = std::min(bounds.max, kFastest * std::max(bounds.initial, known.proven_batch));
  return bounds;
}

BatchChoice BatchChooser::start(int nodes, int replicas, const BatchKnowledge& known) const {
  if (!adaptive_ || !known.perf || known.gradient_samples < kEnough)
    return spread(replicas, known.atomic_limit);
  return GoodputModel(*known.perf, known.grad, bounds_.initial)
      .optimize(nodes, replicas, reachable(known));
}

std::optional<BetterBatch> BatchChooser::improve(int nodes, int replicas,
                                                 const BatchChoice& present,
                                                 const BatchKnowledge& known) const {
  if (!adaptive_ || !known.perf || known.timed_steps < kEnough || known.fresh_samples < kEnough) {
    return std::nullopt;
  }
  const GoodputModel model(*known.perf, known.grad, bounds_.initial);
  const BatchChoice best = model.optimize(nodes, replicas, reachable(known));
  const double now =
      model.evaluate(nodes, replicas, static_cast<double>(present.atomic), present.accum_steps);
  const bool same = best.atomic == present.atomic && best.accum_steps == present.accum_steps;
  if (same || best.goodput <= kWorthwhile * now) return std::nullopt;
  return BetterBatch{best, best.goodput / now};
}

}  // namespace adaptdl
