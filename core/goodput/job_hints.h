#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/goodput/goodput.h"

namespace adaptdl {

// What a job knows of itself on one kind of accelerator.
struct KindHints {
  std::optional<PerfParams> perf;     // fitted to its step times there
  std::optional<double> speed;        // samples/s of one replica alone, > 0; for ratios of kinds
  std::optional<int64_t> atomic_max;  // the most samples that its memory holds; none: of `batch`
};

// The bounds where memory holds what is known of that kind; `bounds` if nothing is.
inline BatchBounds bounds_on(BatchBounds bounds, const KindHints& kind) {
  if (kind.atomic_max) bounds.atomic_max = std::max(*kind.atomic_max, bounds.atomic_min);
  return bounds;
}

// What a job has reported about itself. Any field may be missing; a new job has reported nothing.
struct JobHints {
  std::optional<PerfParams> perf;          // on the accelerators that it has run on
  std::map<std::string, KindHints> kinds;  // by accelerator kind, where kinds are told apart
  std::optional<GradParams> grad;
  std::optional<BatchBounds> batch;          // none: the scheduler ignores the batch
  int max_profiled_replicas = 0;             // most replicas it has measured itself with
  std::optional<double> remaining_progress;  // scale-invariant iterations to its end, >= 0
  std::optional<double> rescale_cost_s;      // cost of a change of its allocation, >= 0
  // Time until new replicas take part, seconds >= 0; the present replicas train meanwhile. None:
  // included in rescale_cost_s.
  std::optional<double> start_cost_s;
};

}  // namespace adaptdl
