#pragma once

// How a job with a fixed total batch shares it among its replicas.

#include <cstdint>

#include "core/goodput/goodput.h"

namespace adaptdl {

// The smallest number of accumulation steps with which each replica's share is at most atomic_max,
// and the share, rounded up but at most bounds.max in total. A single replica with more than
// bounds.initial accumulates at least once, so that it measures the gradient's noise; with
// `lone_accumulates`, at any batch. Requires: total >= 1, replicas >= 1.
//
// Source: the simulator published with Pollux (OSDI'21). The result's goodput is 0.
BatchChoice share_batch(const BatchBounds& bounds, int64_t total, int replicas,
                        bool lone_accumulates = false);

}  // namespace adaptdl
