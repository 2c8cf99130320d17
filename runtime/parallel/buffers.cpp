#include "runtime/parallel/buffers.h"

#include "runtime/comm/communicator.h"
#include "runtime/parallel/torch_device.h"
#include "runtime/torch_compat.h"

namespace adaptdl {

void average_buffers(comm::Communicator* communicator, const std::vector<NamedTensor>& buffers) {
  if (!communicator) return;
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> live, floats, parts;
  for (const auto& buffer : buffers) {
    at::Tensor tensor = buffer.tensor.detach();
    if (tensor.is_complex()) tensor = at::view_as_real(tensor);
    if (tensor.is_floating_point()) {
      live.push_back(tensor);
      // In float64: the sum of K equal fp32 numbers is then exact, and so is their mean.
      parts.push_back(tensor.to(live[0].device(), at::kDouble).flatten());
    } else {
      at::Tensor wide = tensor.to(at::kLong).contiguous();
      communicator->all_reduce(wide.data_ptr(), static_cast<size_t>(wide.numel()), comm::Type::i64,
                               comm::Op::max, memory_of(wide));
      tensor.copy_(wide);
    }
  }
  if (parts.empty()) return;
  at::Tensor mean = at::cat(parts);
  communicator->all_reduce(mean.data_ptr(), static_cast<size_t>(mean.numel()), comm::Type::f64,
                           comm::Op::average, memory_of(mean));
  int64_t offset = 0;
  for (auto& tensor : live) {
    tensor.copy_(mean.narrow(0, offset, tensor.numel()).view(tensor.sizes()));
    offset += tensor.numel();
  }
}

}  // namespace adaptdl
