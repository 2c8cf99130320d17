#pragma once

// How many replicas a run may have.

#include <string>

namespace adaptdl::launch {

// The most replicas that anybody may ask for.
inline constexpr int kMaxReplicas = 1024;

// 1 <= min <= initial <= max.
struct ReplicaBounds {
  int min = 1, initial = 1, max = 1;
};

// "N", "MIN:MAX" (starts with MAX) or "auto" (1 to `available`, the GPUs or, without any, the cores
// that affinity and cgroup limits leave; starts with the most). Throws UsageError.
ReplicaBounds parse_replicas(const std::string& text, int available);

// Throws UsageError for bounds that are out of order.
void check_bounds(const ReplicaBounds& bounds);

}  // namespace adaptdl::launch
