#pragma once

#include <atomic>
#include <mutex>
#include <string>

#include "core/base/cancellation.h"

namespace adaptdl::comm {

// Ends what waits on other threads for a generation, and says why: a connect(), which it is handed
// to and which may be one of several in a row, or the collectives of a Communicator. For good.
// Thread-safe.
class AbortSignal {
 public:
  // What is under way, and all that begins later with this object, throws Aborted with `reason`
  // within 100 ms. Whether this call was the first: its reason stays.
  bool abort(const std::string& reason) noexcept;
  // Costs no system call: those who wait ask in a loop.
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  std::string reason() const;
  int fd() const { return event_.fd(); }  // readable once aborted

 private:
  Cancellation event_;
  std::atomic<bool> aborted_{false};
  mutable std::mutex mutex_;
  std::string reason_;
};

}  // namespace adaptdl::comm
