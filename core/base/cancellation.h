#pragma once

// Cancels work that waits on another thread.

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/fd.h"

namespace adaptdl {

// Thrown by work that was cancelled: nobody waits for its result any more.
class Cancelled : public Error {
 public:
  explicit Cancelled(const std::string& what)
      : Error(what + ": cancelled", ExitCode::interrupted) {}
};

// Cancelling is final. Any thread and any signal handler may call any function. The object outlives
// the work that checks it.
class Cancellation {
 public:
  Cancellation();  // throws Error if the process has no descriptor left
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  void cancel() noexcept;
  bool cancelled() const noexcept;
  int fd() const { return fd_.get(); }  // for poll(2): readable once cancelled

  // Sleeps; returns true, and early, if cancelled.
  bool wait_for(Seconds duration) const;

 private:
  Fd fd_;
};

}  // namespace adaptdl
