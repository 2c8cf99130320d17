#include "runtime/parallel/side_stream.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "runtime/torch_compat.h"

namespace adaptdl {

SideStream::SideStream(at::Device device) {
  if (device.is_cpu()) return;
  stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

std::shared_ptr<const c10::Event> SideStream::here() const {
  if (!stream_) return nullptr;
  auto event = std::make_shared<c10::Event>(stream_->device_type());
  event->record(c10::impl::VirtualGuardImpl(stream_->device_type()).getStream(stream_->device()));
  return event;
}

void SideStream::wait() const {
  if (stream_) c10::impl::VirtualGuardImpl(stream_->device_type()).synchronizeStream(*stream_);
}

SideStream::Scope::Scope(const SideStream& side, const std::shared_ptr<const c10::Event>& point) {
  if (!side.stream_) return;
  guard_.emplace(*side.stream_);
  point->block(*side.stream_);
}

}  // namespace adaptdl
