#pragma once

// What Tiresias and Optimus share, as the simulator published with Pollux (OSDI'21) runs them: they
// count GPUs of one kind, one for each replica, and fill the emptiest nodes first.

#include <optional>
#include <vector>

#include "core/policy/policy.h"

namespace adaptdl {

// Throws Error for a snapshot that these policies know nothing of: nodes of several kinds, replicas
// that do not request exactly one of resources[0].
void check_published(const Snapshot& snapshot, const char* policy);

// GPUs of all nodes together.
int64_t total_gpus(const Snapshot& snapshot);

// How many replicas the job is to have; it keeps its nodes where that is what it has, and where it
// is not preemptible. Otherwise it takes GPUs from the node with most free ones (the first of
// several) again and again. Jobs are placed in the order of `order`, which names each job once. A
// job for which other resources do not suffice gets nothing. Requires: wanted[j] >= 0 for each job,
// the GPUs suffice for all.
std::vector<NodeList> place_on_emptiest(const Snapshot& snapshot, const std::vector<int>& wanted,
                                        const std::vector<int>& order);

// Whether nothing may be changed about the job.
bool pinned(const JobSnapshot& job);

}  // namespace adaptdl
