#include "core/launch/run/replica_bounds.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/job/replica_range.h"

namespace adaptdl::launch {

ReplicaBounds parse_replicas(const std::string& text, int available) {
  if (text == "auto") {
    const int most = std::clamp(available, 1, kMaxReplicas);
    return {1, most, most};
  }
  const ReplicaRange range = replica_range_argument(
      text, "--replicas", {.least = 1, .most = kMaxReplicas, .also = "auto"});
  return {range.min, *range.max, *range.max};
}

void check_bounds(const ReplicaBounds& bounds) {
  if (bounds.min >= 1 && bounds.initial >= bounds.min && bounds.max >= bounds.initial) return;
  throw UsageError(fmt::format("invalid replica range: {} to {}, starting with {}", bounds.min,
                               bounds.max, bounds.initial));
}

}  // namespace adaptdl::launch
