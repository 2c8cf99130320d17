#pragma once

// Sia (SOSP'23): jobs on several kinds of accelerators, by an integer program. adaptdl-policy(5)
// explains it to users.
//
// In each round every job has a few configurations (sia_values.h) with a value V. The program
// chooses one of them, or none at the price lambda, so that the sum is least and the GPUs of each
// kind suffice (assignment.h). Jobs whose configuration stays keep their nodes; the others are
// packed (packing.h).
//
// Differences from the paper:
//  - no job runs on a kind only to be measured; unknown step times are estimated (sia_perf.h);
//  - a job's present allocation is always among its options, even if Sia would not offer it (3
//    replicas from another policy), so a change of policy restarts no job;
//  - a job that has no regular configuration within its bounds gets the smallest that it allows;
//  - replicas may need more than GPUs, and nodes may differ in size, but the program counts GPUs
//    only, so its choice may not fit on the nodes. Such a job gets its next best configuration that
//    fits, or waits for the next round.

#include "core/policy/policy.h"

namespace adaptdl {

PolicyInfo sia_policy();

}  // namespace adaptdl
