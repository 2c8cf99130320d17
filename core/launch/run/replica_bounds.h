#pragma once

// The range of a run's number of replicas.

#include <string>

namespace adaptdl::launch {

// The largest number of replicas.
inline constexpr int kMaxReplicas = 1024;

// 1 <= min <= initial <= max.
struct ReplicaBounds {
  int min = 1, initial = 1, max = 1;
};

// "N", "MIN:MAX" (starts with MAX) or "auto" (1 to `available`, the GPUs or, without any, the cores
// that affinity and cgroup limits leave; starts with the most). Throws UsageError.
ReplicaBounds parse_replicas(const std::string& text, int available);

// Throws UsageError for an invalid range.
void check_bounds(const ReplicaBounds& bounds);

}  // namespace adaptdl::launch
