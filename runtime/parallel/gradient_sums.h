#pragma once

// Sums of squares of a step's gradients, and whether all their numbers are finite.
//
// Plain fp32 memory on a CPU is summed at once, in one pass and in float64 (gns/kernels.h).
// Everything else is queued for LibTorch's operators on lists of tensors, which on a GPU are a few
// launches however many tensors there are, and read() waits for the device once. Intermediate
// results take 400 MB at most, however large the tensors; twice that in float64. A GPU sums float32
// and narrower types in float32, so gradients beyond 1e19 count as not finite there.

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runtime/gns/kernels.h"
#include "runtime/optim/optimizer.h"

namespace adaptdl {

// Not thread-safe. What sums are added to must stay where it is until read(). A divisor has the
// shape of the values, or is empty.
class GradientSums {
 public:
  // sum += factor * |values / divisor|^2
  void add_squares(const at::Tensor& values, const Preconditioner& divisor, double factor,
                   double& sum);
  // sums += |a|^2, |b|^2 and a * b, each of both divided by the divisor.
  void add_dots(const at::Tensor& a, const at::Tensor& b, const Preconditioner& divisor,
                gns::Dots& sums);
  // target = source, or target += source, and then add_squares() of the source, or without `sum`
  // check(); that not on a GPU, where the caller does so later. Both have as many elements, target
  // is contiguous.
  void store(const at::Tensor& target, const at::Tensor& source, bool add,
             const Preconditioner& divisor, double factor, double* sum);
  // Only whether they are finite.
  void check(const at::Tensor& values);

  // The tensors so far may change after this: what is to be computed of them is queued before.
  void launch();

  // Adds what is queued. Whether all numbers since the last read() were finite.
  bool read();

  // Forgets what is queued.
  void clear();

 private:
  struct Part {  // flat tensors of at most kPiece elements
    at::Tensor a, b, squares;
    gns::Divisor divisor;  // of it only the numbers
    double factor = 1;
    double* sum = nullptr;  // of a alone
    gns::Dots* dots = nullptr;
    bool like(const Part& other) const;
  };
  struct Launched {
    std::vector<Part> parts;
    at::Tensor norms;  // of all a; then of all b, and of all a - b
  };

  void queue(Part part, const Preconditioner& divisor);
  static at::Tensor norms_of(const std::vector<Part>& parts);

  std::vector<Part> queue_;
  std::vector<Launched> launched_;
  bool finite_ = true;
};

}  // namespace adaptdl
