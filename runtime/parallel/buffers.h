#pragma once

#include <vector>

#include "adaptdl/named_tensor.h"

namespace adaptdl {

namespace comm {
class Communicator;
}

// Makes buffers equal on all replicas: floating-point and complex ones become the mean (batch-norm
// statistics), others the maximum (counters). Values that are equal everywhere do not change: fp32
// bitwise, float64 except for rounding. Collective: one all-reduce, and one more for each integral
// buffer; throws comm::Aborted. Does nothing for a null communicator.
void average_buffers(comm::Communicator* communicator, const std::vector<NamedTensor>& buffers);

}  // namespace adaptdl
