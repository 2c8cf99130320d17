#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "core/base/fd.h"

namespace adaptdl::comm {

// Ends a connect() from another thread. Made before, may be used for several in a row.
// Thread-safe.
class Cancellation {
 public:
  Cancellation();
  // The connect() that is under way, and every later one with this object, throws Aborted with
  // `reason` within 100 ms.
  void cancel(const std::string& reason) noexcept { cancel_first(reason); }
  bool cancel_first(const std::string& reason) noexcept;  // whether this was the first; it stays
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
