#pragma once

// Slots: what replicas run on, by number. A core's is the system's, a GPU's its place in gpus().
// Pure functions.

#include <string>
#include <vector>

namespace adaptdl::launch {

// Throws UsageError unless the slots are all different, not negative, and (if there are any) enough
// for so many replicas.
void check_slots(const std::vector<int>& slots, int per_replica, int replicas);

// Whether so many replicas may be asked for of a run that has these slots (none: no limit). Throws
// Error.
void check_scale(int replicas, const std::vector<int>& slots, int per_replica);

// Throws Error unless all are less than `gpus`.
void check_gpus(const std::vector<int>& slots, int gpus);

// The `index`-th replica's of a list for several; none of an empty list.
std::vector<int> slots_of(const std::vector<int>& slots, int index, int per_replica);

// The value of CUDA_VISIBLE_DEVICES. Requires: check_gpus.
std::string visible_gpus(const std::vector<std::string>& gpus, const std::vector<int>& slots);

}  // namespace adaptdl::launch
