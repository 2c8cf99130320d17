#pragma once

// A plain queue: every job gets the replicas that its user requested, first come, first served, and
// keeps them until it ends. adaptdl-policy(5) explains it to users.
//
// A job gets requested_replicas, clamped to [min_replicas, max_replicas]. Jobs are served in the
// order of submission. Running jobs keep their nodes. A job that starts gets the fewest nodes of
// one kind, and among those the nodes with the fewest free resources.
//
// Backfilling: a job that does not fit waits, and later jobs that fit may overtake it. EASY
// backfilling reserves a start for the first waiting job, which requires the durations of the other
// jobs; these are unknown here. Instead, once the age of a waiting job exceeds `patience`, no other
// job starts on the nodes that it could use. Free resources there then only grow, because each
// running job ends at some time, until the first such job fits. So no job waits forever. Without
// backfilling patience is 0. A job that would not fit even on empty nodes reserves no nodes, and no
// job reserves nodes that it cannot use.

#include "core/policy/policy.h"

namespace adaptdl {

PolicyInfo fixed_policy();

}  // namespace adaptdl
