#pragma once

// How a job whose total batch its user chose shares it among its replicas.

#include <cstdint>

#include "core/goodput/goodput.h"

namespace adaptdl {

// The least number of accumulation steps with which each replica's share is at most atomic_max, and
// the share. Rounded up, but not beyond bounds.max in total. A lone replica with more than
// bounds.initial accumulates at least once, so that it learns the gradient's noise; with
// `lone_accumulates`, whatever its batch. Requires: total >= 1, replicas >= 1.
//
// Source: the simulator published with Pollux (OSDI'21). The result's goodput is 0.
BatchChoice share_batch(const BatchBounds& bounds, int64_t total, int replicas,
                        bool lone_accumulates = false);

}  // namespace adaptdl
