#include "runtime/parallel/torch_device.h"

#include <optional>

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

class TorchDevice final : public comm::Device {
 public:
  explicit TorchDevice(at::Device device) : device_(device), streams_(device.type()) {}

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

  // Not kept: LibTorch's allocator has it at hand for the next one, and for everybody else.
  void* scratch(size_t bytes) override {
    scratch_.reset();
    scratch_ = at::empty({static_cast<int64_t>(bytes)},
                         at::TensorOptions().dtype(at::kByte).device(device_));
    return scratch_.data_ptr();
  }
  void* stream() override { return streams_.getStreamNativeHandle(streams_.getStream(device_)); }
  void mark() override {
    if (!event_) event_.emplace(device_.type());
    event_->record(streams_.getStream(device_));
  }
  bool done() override { return event_->query(); }

 private:
  static at::Tensor view(void* data, size_t bytes, at::Device device) {
    return at::from_blob(data, {static_cast<int64_t>(bytes)},
                         at::TensorOptions().dtype(at::kByte).device(device));
  }

  const at::Device device_;
  const c10::impl::VirtualGuardImpl streams_;
  at::Tensor staging_, scratch_;
  std::optional<c10::Event> event_;
};

}  // namespace

std::unique_ptr<comm::Device> torch_device(at::Device device) {
  return device.is_cpu() ? nullptr : std::make_unique<TorchDevice>(device);
}

}  // namespace adaptdl
