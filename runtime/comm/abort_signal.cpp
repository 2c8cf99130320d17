#include "runtime/comm/abort_signal.h"

namespace adaptdl::comm {

bool AbortSignal::abort(const std::string& reason) noexcept {
  {
    std::lock_guard lock(mutex_);
    if (aborted_.load()) return false;
    try {
      reason_ = reason;
    } catch (...) {  // out of memory: aborted all the same
    }
    aborted_.store(true, std::memory_order_release);
  }
  event_.cancel();
  return true;
}

std::string AbortSignal::reason() const {
  std::lock_guard lock(mutex_);
  return reason_;
}

}  // namespace adaptdl::comm
