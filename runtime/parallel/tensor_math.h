#pragma once

// Sums of squares of tensors in float64: one pass over plain fp32 memory on a CPU (gns/kernels.h),
// LibTorch's operators for everything else.

#include <vector>

#include <ATen/core/Tensor.h>

#include "runtime/comm/communicator.h"
#include "runtime/optim/optimizer.h"

namespace adaptdl {

struct Dots {
  double aa = 0, bb = 0, ab = 0;
};

// As collectives know it. Throws Error for a type that cannot be averaged.
comm::Type wire_type(at::ScalarType type);

// Waits for the device that computes `values`.
bool all_finite(const at::Tensor& values);
// Of tensors of one device, for which it waits once.
bool all_finite(const std::vector<at::Tensor>& values);

double sum_squares(const at::Tensor& values, const Preconditioner& divisor);
Dots dots(const at::Tensor& a, const at::Tensor& b, const Preconditioner& divisor);

// target = source, or target += source; both have as many elements, target is contiguous.
// Returns the sum of (source / divisor)^2 when `measure`; else, on a CPU, a number that is finite
// if `source` is.
double store(const at::Tensor& target, const at::Tensor& source, bool add, bool measure,
             const Preconditioner& divisor);

}  // namespace adaptdl
