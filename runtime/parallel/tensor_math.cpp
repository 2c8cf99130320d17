#include "runtime/parallel/tensor_math.h"

#include <cmath>

#include "core/base/error.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

// In a wider type than fp16, whose sum may be infinite.
double sum_of(const at::Tensor& values) {
  const auto type = values.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return values.detach().sum(type).item<double>();
}

}  // namespace

bool plain(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.scalar_type() == at::kFloat && tensor.is_contiguous();
}

bool plain(const at::Tensor& values, const Preconditioner& divisor) {
  return plain(values) && (!divisor.exp_avg_sq.defined() || plain(divisor.exp_avg_sq));
}

gns::Divisor gns_divisor(const Preconditioner& divisor) {
  if (!divisor.exp_avg_sq.defined()) return {};
  const bool fp32 = divisor.exp_avg_sq.scalar_type() == at::kFloat;
  return gns::Divisor::adam(
      fp32 ? static_cast<const float*>(divisor.exp_avg_sq.const_data_ptr()) : nullptr,
      divisor.beta2, divisor.steps, divisor.eps);
}

comm::Type wire_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return comm::Type::f32;
    case at::kDouble:
      return comm::Type::f64;
    case at::kHalf:
      return comm::Type::f16;
    case at::kBFloat16:
      return comm::Type::bf16;
    default:
      fail("parameters of type {} cannot be trained data-parallel; use a floating-point type",
           at::toString(type));
  }
}

bool all_finite(const at::Tensor& values) {
  return plain(values)
             ? gns::all_finite(values.const_data_ptr<float>(), static_cast<size_t>(values.numel()))
             : std::isfinite(sum_of(values));
}

}  // namespace adaptdl
