#include "runtime/parallel/tensor_math.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "core/base/error.h"
#include "runtime/gns/kernels.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

bool plain(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.scalar_type() == at::kFloat && tensor.is_contiguous();
}

// In a wider type than fp16, whose sum may be infinite.
double sum_of(const at::Tensor& values) {
  const auto type = values.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return values.detach().sum(type).item<double>();
}

gns::Divisor gns_divisor(const Preconditioner& divisor) {
  if (!divisor.exp_avg_sq.defined()) return {};
  const bool fp32 = divisor.exp_avg_sq.scalar_type() == at::kFloat;
  return gns::Divisor::adam(
      fp32 ? static_cast<const float*>(divisor.exp_avg_sq.const_data_ptr()) : nullptr,
      divisor.beta2, divisor.steps, divisor.eps);
}

// May share the memory of `values`.
at::Tensor as_double(const at::Tensor& values, const Preconditioner& divisor) {
  const auto result = values.detach().to(at::kDouble).flatten();
  if (gns_divisor(divisor).kind() == gns::Divisor::Kind::ones) return result;
  const double correction = 1.0 - std::pow(divisor.beta2, static_cast<double>(divisor.steps));
  return result.div(
      divisor.exp_avg_sq.to(at::kDouble).flatten().div(correction).sqrt_().add_(divisor.eps));
}

// Whether one pass over plain memory is possible.
bool plain(const at::Tensor& values, const Preconditioner& divisor) {
  return plain(values) && (!divisor.exp_avg_sq.defined() || plain(divisor.exp_avg_sq));
}

size_t count(const at::Tensor& tensor) {
  return static_cast<size_t>(tensor.numel());
}

}  // namespace

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
  return plain(values) ? gns::all_finite(values.const_data_ptr<float>(), count(values))
                       : std::isfinite(sum_of(values));
}

bool all_finite(const std::vector<at::Tensor>& values) {
  std::vector<at::Tensor> some;
  std::ranges::copy_if(values, std::back_inserter(some),
                       [](const at::Tensor& each) { return each.numel() > 0; });
  if (some.empty()) return true;
  const double most = std::numeric_limits<double>::infinity();
  return at::stack(at::_foreach_norm(some, most)).isfinite().all().item<bool>();
}

double sum_squares(const at::Tensor& values, const Preconditioner& divisor) {
  if (plain(values, divisor)) {
    return gns::sum_squares(values.const_data_ptr<float>(), count(values), gns_divisor(divisor));
  }
  const auto wide = as_double(values, divisor);
  return wide.dot(wide).item<double>();
}

Dots dots(const at::Tensor& a, const at::Tensor& b, const Preconditioner& divisor) {
  if (plain(a, divisor) && plain(b)) {
    const auto sums = gns::dots(a.const_data_ptr<float>(), b.const_data_ptr<float>(), count(a),
                                gns_divisor(divisor));
    return {sums.aa, sums.bb, sums.ab};
  }
  const auto x = as_double(a, divisor), y = as_double(b, divisor);
  return {x.dot(x).item<double>(), y.dot(y).item<double>(), x.dot(y).item<double>()};
}

double store(const at::Tensor& target, const at::Tensor& source, bool add, bool measure,
             const Preconditioner& divisor) {
  if (plain(target) && plain(source, divisor)) {
    float* to = target.mutable_data_ptr<float>();
    const float* from = source.const_data_ptr<float>();
    const gns::Divisor by = measure ? gns_divisor(divisor) : gns::Divisor();
    return add ? gns::accumulate_and_norm(to, from, count(source), by)
               : gns::copy_and_norm(to, from, count(source), by);
  }
  const auto flat = source.detach().reshape({-1});
  add ? target.add_(flat) : target.copy_(flat);
  if (measure) return sum_squares(source, divisor);
  return source.device().is_cpu() ? sum_of(source) : 0.0;
}

}  // namespace adaptdl
