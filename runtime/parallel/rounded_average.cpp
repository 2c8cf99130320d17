#include "runtime/parallel/rounded_average.h"

#include <algorithm>

#include "runtime/comm/communicator.h"
#include "runtime/parallel/tensor_math.h"
#include "runtime/parallel/torch_device.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

// On a CPU: in its cache, and no more than LibTorch gives to the calling thread alone.
constexpr int64_t kAtOnce = int64_t{1} << 15;

}  // namespace

void RoundedAverage::average(comm::Communicator& communicator, const at::Tensor& values) {
  const at::NoGradGuard no_grad;
  if (!rounded_.defined()) {
    error_ = at::zeros_like(values);
    rounded_ = at::empty_like(values, values.options().dtype(at::kBFloat16));
  }
  const int64_t all = values.numel(), most = values.is_cpu() ? kAtOnce : all;
  for (int64_t begin = 0; begin < all; begin += most) {
    const int64_t count = std::min(most, all - begin);
    at::Tensor sum = values.narrow(0, begin, count), error = error_.narrow(0, begin, count);
    const at::Tensor rounded = rounded_.narrow(0, begin, count);
    sum.add_(error.mul_(error.norm() <= sum.norm()));  // a GPU need not be waited for
    rounded.copy_(sum);
    error.copy_(rounded);
    at::sub_out(error, sum, error);
    error.nan_to_num_(0, 0, 0);
  }
  communicator.all_reduce(rounded_.mutable_data_ptr(), static_cast<size_t>(all),
                          wire_type(at::kBFloat16), comm::Op::average, memory_of(rounded_));
  for (int64_t begin = 0; begin < all; begin += most) {
    const int64_t count = std::min(most, all - begin);
    values.narrow(0, begin, count).copy_(rounded_.narrow(0, begin, count));
  }
}

}  // namespace adaptdl
