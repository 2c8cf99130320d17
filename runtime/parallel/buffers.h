#pragma once

#include <vector>

#include "adaptdl/named_tensor.h"

namespace adaptdl {

namespace comm {
class Communicator;
}

// Makes buffers the same on all replicas: floating-point and complex ones their mean (batch-norm
// statistics), others the largest value (counters). What is the same everywhere stays so: an fp32
// number to the last bit, a float64 one but for its rounding. Collective, in one all-reduce and
// another for each integral buffer; throws comm::Aborted. Nothing for a null communicator.
void average_buffers(comm::Communicator* communicator, const std::vector<NamedTensor>& buffers);

}  // namespace adaptdl
