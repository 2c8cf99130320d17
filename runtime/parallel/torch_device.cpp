#include "runtime/parallel/torch_device.h"

#include <optional>

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "core/base/error.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

// More than NCCL takes to connect.
constexpr size_t kRoom = 1 << 30;

at::ScalarType torch_type(comm::Type type) {
  switch (type) {
    case comm::Type::f32:
      return at::kFloat;
    case comm::Type::f64:
      return at::kDouble;
    case comm::Type::f16:
      return at::kHalf;
    case comm::Type::bf16:
      return at::kBFloat16;
    case comm::Type::i64:
      return at::kLong;
    case comm::Type::i32:
      return at::kInt;
    case comm::Type::u8:
      return at::kByte;
  }
  fail("no such type");
}

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

  std::shared_ptr<void> scratch(size_t bytes) override {
    return held(at::empty({static_cast<int64_t>(bytes)},
                          at::TensorOptions().dtype(at::kByte).device(device_)));
  }
  std::shared_ptr<void> widened(const void* data, size_t count, comm::Type type) override {
    return held(elements(const_cast<void*>(data), count, type).to(at::kFloat));
  }
  void narrow(void* data, const void* wide, size_t count, comm::Type type) override {
    elements(data, count, type).copy_(elements(const_cast<void*>(wide), count, comm::Type::f32));
  }
  void divide(void* data, size_t count, comm::Type type, int divisor) override {
    const at::Tensor values = elements(data, count, type);
    values.is_floating_point() ? values.div_(divisor) : values.div_(divisor, "trunc");
  }
  void make_room() override { free_unused(device_, kRoom); }
  void* stream() override { return streams_.getStreamNativeHandle(streams_.getStream(device_)); }
  void mark() override {
    if (!event_) event_.emplace(device_.type());
    event_->record(streams_.getStream(device_));
  }
  bool done() override { return event_->query(); }

 private:
  static std::shared_ptr<void> held(const at::Tensor& tensor) {
    return {tensor.data_ptr(), [tensor](void*) {}};
  }
  at::Tensor elements(void* data, size_t count, comm::Type type) const {
    return at::from_blob(data, {static_cast<int64_t>(count)},
                         at::TensorOptions().dtype(torch_type(type)).device(device_));
  }
  static at::Tensor view(void* data, size_t bytes, at::Device device) {
    return at::from_blob(data, {static_cast<int64_t>(bytes)},
                         at::TensorOptions().dtype(at::kByte).device(device));
  }

  const at::Device device_;
  const c10::impl::VirtualGuardImpl streams_;
  at::Tensor staging_;
  std::optional<c10::Event> event_;
};

}  // namespace

std::unique_ptr<comm::Device> torch_device(at::Device device) {
  return device.is_cpu() ? nullptr : std::make_unique<TorchDevice>(device);
}

}  // namespace adaptdl
