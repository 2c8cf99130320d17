#pragma once

// Sia (SOSP'23): an integer program for jobs on several kinds of accelerators. adaptdl-policy(5)
// explains it to users.
//
// In each round, every job has a few configurations (sia_values.h), each with a value V. The
// program chooses one of them for each job, or none at the price lambda, so that the sum is minimal
// and the GPUs of each kind suffice (assignment.h). Jobs whose configuration does not change keep
// their nodes; the others are packed (packing.h).
//
// Differences from the paper:
//  - no job runs on a kind only to be measured; unknown speeds are estimated (perf_estimate.h);
//  - a job's present allocation is always one of its options, even if Sia would not choose it (such
//    as 3 replicas from another policy), so that a change of policy restarts no job;
//  - a job without a regular configuration within its bounds gets the minimum that they allow;
//  - replicas may need other resources than GPUs, and nodes may have different sizes. The program
//    counts GPUs only, so its choice may not fit on any nodes. Such a job gets its next best
//    configuration that fits, or waits for the next round.

#include "core/policy/policy.h"

namespace adaptdl {

PolicyInfo sia_policy();

}  // namespace adaptdl
