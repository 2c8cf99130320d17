#pragma once

// Gradients of some rows of a parameter, as those of an embedding with sparse=True: COO tensors
// with one sparse dimension. Here they are coalesced: each row once, in order.

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runtime/gns/kernels.h"

namespace adaptdl {

namespace comm {
class Communicator;
}

// Whether the gradient names rows.
bool has_rows(const at::Tensor& gradient);

// The rows of a gradient that may have them more than once, or is dense: those that are not zero.
at::Tensor rows_of(const at::Tensor& gradient);

// The numbers of all rows, which alias the gradient's; of a dense gradient, itself.
at::Tensor values_of(const at::Tensor& gradient);

// a * b and the squares, as if both were dense; one of them may be.
gns::Dots dots_of_rows(const at::Tensor& a, const at::Tensor& b);

// The mean over the replicas: sums in order of rank, bitwise the same on all. `mine` has one
// gradient for each of `parameters`, undefined if there is none. 16-bit numbers are added in fp32.
// Collective: an all-gather of how many rows there are, and one for each parameter, as large as the
// largest contribution. Throws comm::Aborted.
std::vector<at::Tensor> average_rows(comm::Communicator& communicator,
                                     const std::vector<at::Tensor>& parameters,
                                     const std::vector<at::Tensor>& mine);

}  // namespace adaptdl
