#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "core/base/fd.h"

namespace adaptdl::comm {

// Cancels a connect() from another thread. Create it before the call; one object can serve several
// calls in a row. Thread-safe.
class Cancellation {
 public:
  Cancellation();
  // The running connect(), and every later one with this object, throws Aborted with `reason`
  // within 100 ms.
  void cancel(const std::string& reason) noexcept { cancel_first(reason); }
  bool cancel_first(
      const std::string& reason) noexcept;  // true for the first call, whose reason stays
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  std::string reason() const;
  int fd() const { return event_.get(); }  // readable once cancelled

 private:
  Fd event_;
  std::atomic<bool> cancelled_{false};
  mutable std::mutex mutex_;
  std::string reason_;
};

}  // namespace adaptdl::comm
