#pragma once

// Slots: the cores or GPUs that replicas run on, by number. A core has the system's number, a GPU
// its index in gpus(); of more slots than GPUs several have the same one. Pure functions.

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace adaptdl::launch {

// Throws UsageError unless the slots are distinct and not negative, and enough for `replicas`. An
// empty list means that there is no limit.
void check_slots(const std::vector<int>& slots, int per_replica, int replicas);

// Throws Error if a run with these slots cannot have that many replicas. An empty list means that
// there is no limit.
void check_scale(int replicas, const std::vector<int>& slots, int per_replica);

// Throws Error unless all are less than `gpus`.
void check_gpus(const std::vector<int>& slots, int gpus);

// The slots of replica number `index`; empty for an empty list.
std::vector<int> slots_of(const std::vector<int>& slots, int index, int per_replica);

// The value of CUDA_VISIBLE_DEVICES. Of n GPUs the slots i, i + n, i + 2 n, ... share number i.
// Requires: `gpus` is not empty.
std::string visible_gpus(const std::vector<std::string>& gpus, const std::vector<int>& slots);

// The kind of a replica's slots, which are all of one; nothing if it is not known.
std::optional<std::string> accelerator_of(const std::vector<int>& slots,
                                          const std::map<int, std::string>& accelerators);

}  // namespace adaptdl::launch
