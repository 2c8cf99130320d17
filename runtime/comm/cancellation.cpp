#include "runtime/comm/cancellation.h"

#include <cerrno>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/base/error.h"

namespace adaptdl::comm {

Cancellation::Cancellation() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_) fail_errno(errno, "cannot create an eventfd");
}

bool Cancellation::cancel_first(const std::string& reason) noexcept {
  {
    std::lock_guard lock(mutex_);
    if (cancelled_.load()) return false;
    try {
      reason_ = reason;
    } catch (...) {  // out of memory: still cancelled
    }
    cancelled_.store(true, std::memory_order_release);
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof one);
  return true;
}

std::string Cancellation::reason() const {
  std::lock_guard lock(mutex_);
  return reason_;
}

}  // namespace adaptdl::comm
