#include "runtime/session/saved_buffers.h"

#include "runtime/torch_compat.h"

namespace adaptdl {

bool SavedBuffers::Buffer::copied(bool always) const {
  return always || changes || still < kStill || tensor.nbytes() <= kSmall;
}

void SavedBuffers::save() {
  if (!none_ || !state_.empty()) restore();
  state_ = program_.state();
  saved_ = true;
  if (none_) return;
  const std::vector<NamedTensor> now = program_.buffers();
  none_ = now.empty();
  if (buffers_.size() != now.size()) buffers_.assign(now.size(), {});
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < now.size(); ++i) {
    Buffer& buffer = buffers_[i];
    // A program may put another tensor in a buffer's place.
    if (buffer.tensor.defined() && !buffer.tensor.is_same(now[i].tensor)) buffer.changes = true;
    buffer.tensor = now[i].tensor;
    buffer.version = buffer.tensor._version();
    if (!buffer.copied(always_)) continue;
    const at::Tensor values = buffer.tensor.detach();
    if (buffer.copy.defined() && buffer.copy.sizes() == values.sizes()) {
      buffer.copy.copy_(values);
    } else {
      buffer.copy = values.clone();
    }
  }
}

void SavedBuffers::keep() {
  if (!saved_) return;
  saved_ = false;
  const at::NoGradGuard no_grad;
  for (Buffer& buffer : buffers_) {
    if (buffer.changes || buffer.tensor.nbytes() <= kSmall) continue;
    buffer.changes = buffer.tensor._version() != buffer.version ||
                     (buffer.copy.defined() && !at::equal(buffer.copy, buffer.tensor));
    if (!buffer.changes && buffer.still < kStill) ++buffer.still;
    if (!buffer.copied(always_)) buffer.copy.reset();
  }
}

void SavedBuffers::restore() {
  if (!saved_) return;
  saved_ = false;
  if (!state_.empty()) program_.load_state(state_);
  write_back();
}

void SavedBuffers::rewind() {
  if (!none_) write_back();
}

void SavedBuffers::write_back() {
  const std::vector<NamedTensor> now = program_.buffers();
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < now.size() && i < buffers_.size(); ++i) {
    const at::Tensor values = now[i].tensor.detach();
    const at::Tensor& copy = buffers_[i].copy;
    if (copy.defined() && copy.sizes() == values.sizes()) values.copy_(copy);
  }
}

}  // namespace adaptdl
