#pragma once

// Asks work that waits on another thread to end.

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/fd.h"

namespace adaptdl {

// What work ends with that was asked to: nobody waits for its result any more.
class Cancelled : public Error {
 public:
  explicit Cancelled(const std::string& what)
      : Error(what + ": cancelled", ExitCode::interrupted) {}
};

// For good: it cannot be taken back. Any thread, and signal handlers, may call any function. It
// outlives the work that looks at it.
class Cancellation {
 public:
  Cancellation();  // throws Error if the process has no descriptor left
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  void cancel() noexcept;
  bool cancelled() const noexcept;
  int fd() const { return fd_.get(); }  // for poll(2): readable once cancelled

  // Sleeps; true, and early, if cancelled.
  bool wait_for(Seconds duration) const;

 private:
  Fd fd_;
};

}  // namespace adaptdl
