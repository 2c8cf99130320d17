#pragma once

// Sia (SOSP'23): jobs on several kinds of accelerators, by an integer program. adaptdl-policy(5)
// explains it to users.
//
// Each round every job has a few configurations with a value V (sia_values.h), and one of them, or
// none at the price lambda, is chosen so that the sum is least and the GPUs of each kind suffice
// (assignment.h). Jobs whose configuration stays keep their nodes, the others are packed
// (packing.h).
//
// Where this differs from the paper:
//  - nobody is run on a kind only to be measured; what is not known is estimated (perf_estimate.h);
//  - a job's present allocation is always among its options, also where Sia would not have it (3
//    replicas left behind by another policy), so that a change of policy restarts nobody;
//  - a job that has no regular configuration within its bounds is given the least that it allows;
//  - replicas that need more than GPUs, and nodes of different sizes: the program counts GPUs only,
//    so what it chose may not fit any nodes. Such a job is given its next best configuration that
//    fits, or waits for the next round.

#include "core/policy/policy.h"

namespace adaptdl {

PolicyInfo sia_policy();

}  // namespace adaptdl
