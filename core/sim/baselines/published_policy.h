#pragma once

// The common part of Tiresias and Optimus as the simulator published with Pollux (OSDI'21) runs
// them: they count GPUs of one kind, one for each replica, and fill the emptiest nodes first.

#include <optional>
#include <vector>

#include "core/policy/policy.h"

namespace adaptdl {

// Throws Error for a snapshot that these policies do not support: nodes of several kinds, replicas
// that do not request exactly one of resources[0].
void check_published(const Snapshot& snapshot, const char* policy);

// GPUs of all nodes together.
int64_t total_gpus(const Snapshot& snapshot);

// Places wanted[j] replicas of each job j. A job keeps its nodes if it has that many replicas, or
// if it is not preemptible. Otherwise it repeatedly takes GPUs from the node with the most free
// ones (the first of equals). Jobs are placed in the order of `order`, which lists each job once. A
// job for which other resources do not suffice gets nothing. Requires: wanted[j] >= 0 for each job,
// enough GPUs for all.
std::vector<NodeList> place_on_emptiest(const Snapshot& snapshot, const std::vector<int>& wanted,
                                        const std::vector<int>& order);

// Whether the job's allocation must not change, or is still changing.
bool pinned(const JobSnapshot& job);

}  // namespace adaptdl
