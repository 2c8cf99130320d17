#include "runtime/parallel/tensor_math.h"

#include "runtime/gns/kernels.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

bool plain(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.scalar_type() == at::kFloat && tensor.is_contiguous();
}

at::Tensor as_double(const at::Tensor& values, const at::Tensor& divisor) {
  auto result = values.detach().to(at::kDouble).flatten();
  return divisor.defined() ? result.div(divisor.detach().to(at::kDouble).flatten()) : result;
}

size_t count(const at::Tensor& tensor) { return static_cast<size_t>(tensor.numel()); }

}  // namespace

double sum_squares(const at::Tensor& values, const at::Tensor& divisor) {
  if (plain(values) && !divisor.defined()) {
    return gns::sum_squares(values.const_data_ptr<float>(), count(values));
  }
  const auto wide = as_double(values, divisor);
  return wide.dot(wide).item<double>();
}

Dots dots(const at::Tensor& a, const at::Tensor& b, const at::Tensor& divisor) {
  if (plain(a) && plain(b) && !divisor.defined()) {
    const auto sums = gns::dots(a.const_data_ptr<float>(), b.const_data_ptr<float>(), count(a));
    return {sums.aa, sums.bb, sums.ab};
  }
  const auto x = as_double(a, divisor), y = as_double(b, divisor);
  return {x.dot(x).item<double>(), y.dot(y).item<double>(), x.dot(y).item<double>()};
}

double store(const at::Tensor& target, const at::Tensor& source, bool add, bool measure,
             const at::Tensor& divisor) {
  if (plain(target) && plain(source) && !divisor.defined()) {
    float* to = target.mutable_data_ptr<float>();
    const float* from = source.const_data_ptr<float>();
    return add ? gns::accumulate_and_norm(to, from, count(source))
               : gns::copy_and_norm(to, from, count(source));
  }
  const auto flat = source.detach().reshape({-1});
  add ? target.add_(flat) : target.copy_(flat);
  return measure ? sum_squares(source, divisor) : 0.0;
}

}  // namespace adaptdl
