#include "runtime/session/batches.h"

#include "runtime/archive/saved_tensor.h"
#include "runtime/archive/tensor_types.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

// Without waiting for what the GPU still has to do: that needs memory that stays in place, which
// LibTorch keeps until the copy is done.
at::Tensor on_device(const at::Tensor& tensor, at::Device device) {
  if (!device.is_cuda() || !tensor.is_cpu()) return tensor.to(device);
  return tensor.pin_memory().to(device, /*non_blocking=*/true);
}

}  // namespace

std::vector<at::Tensor> to_tensors(const data::Batch& batch, at::Device device) {
  std::vector<at::Tensor> tensors;
  if (batch.fetched) {
    for (const auto& tensor : *static_cast<const std::vector<at::Tensor>*>(batch.fetched.get())) {
      tensors.push_back(on_device(tensor, device));
    }
    return tensors;
  }
  for (const auto& buffer : batch.columns) {
    const auto options = at::TensorOptions().dtype(scalar_type(buffer.dtype));
    at::Tensor tensor = buffer.bytes == 0 ? at::empty(buffer.shape, options)
                                          : at::from_blob(
                                                buffer.memory.get(), buffer.shape,
                                                [keep = buffer.memory](void*) {}, options);
    tensors.push_back(on_device(tensor, device));
  }
  return tensors;
}

void install_torch_reader() {
  data::set_torch_reader(read_saved_tensor);
}

}  // namespace adaptdl
