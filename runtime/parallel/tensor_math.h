#pragma once

// Tensors as plain memory, and as collectives know them.

#include <ATen/core/Tensor.h>

#include "runtime/comm/communicator.h"
#include "runtime/gns/kernels.h"
#include "runtime/optim/optimizer.h"

namespace adaptdl {

// As collectives know it. Throws Error for a type that cannot be averaged.
comm::Type wire_type(at::ScalarType type);

// Whether one pass over fp32 memory on a CPU (gns/kernels.h) can do.
bool plain(const at::Tensor& tensor);
bool plain(const at::Tensor& values, const Preconditioner& divisor);

// Borrows the divisor's memory, if that is plain.
gns::Divisor gns_divisor(const Preconditioner& divisor);

// Waits for the device that computes `values`.
bool all_finite(const at::Tensor& values);

}  // namespace adaptdl
