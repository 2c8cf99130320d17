#include "runtime/parallel/device_memory.h"

#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

class TorchMemory final : public comm::DeviceMemory {
 public:
  explicit TorchMemory(at::Device device) : device_(device) {}

  void* staging(size_t bytes) override {
    if (!staging_.defined() || staging_.nbytes() < bytes) {
      staging_.reset();  // before allocating another
      staging_ = at::empty({static_cast<int64_t>(bytes)},
                           at::TensorOptions().dtype(at::kByte).pinned_memory(true));
    }
    return staging_.data_ptr();
  }
  void to_host(void* host, const void* device, size_t bytes) override {
    view(host, bytes, at::kCPU).copy_(view(const_cast<void*>(device), bytes, device_));
  }
  void to_device(void* device, const void* host, size_t bytes) override {
    view(device, bytes, device_).copy_(view(const_cast<void*>(host), bytes, at::kCPU));
  }

 private:
  static at::Tensor view(void* data, size_t bytes, at::Device device) {
    return at::from_blob(data, {static_cast<int64_t>(bytes)},
                         at::TensorOptions().dtype(at::kByte).device(device));
  }

  const at::Device device_;
  at::Tensor staging_;
};

}  // namespace

std::unique_ptr<comm::DeviceMemory> device_memory(at::Device device) {
  return device.is_cpu() ? nullptr : std::make_unique<TorchMemory>(device);
}

}  // namespace adaptdl
