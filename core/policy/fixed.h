#pragma once

// What a plain queue does: every job gets what its user asked for, first come first served, and
// keeps it to its end. adaptdl-policy(5) explains it to people.
//
// A job wants requested_replicas, brought into [min_replicas, max_replicas]. Jobs are served by
// submission. Running jobs keep their nodes. A job that starts gets the fewest nodes of one kind,
// and of these those with least room to spare.
//
// Backfilling: a job that does not fit waits, and later ones that fit may overtake it. EASY
// backfilling reserves a start for the first job that waits, which takes the durations of the
// others; these are not known here. Instead nothing more starts on the nodes that a waiting job
// could use once its age exceeds `patience`. What is free there then only grows, as each running
// job ends at some time, until the first such job fits: no job waits for ever. Without backfilling
// patience is 0. A job that does not fit these nodes even when they are empty holds nobody up, nor
// does one on nodes that it cannot use.

#include "core/policy/policy.h"

namespace adaptdl {

PolicyInfo fixed_policy();

}  // namespace adaptdl
