#pragma once

// Signals that interrupt a command, such that it can clean up.

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "core/base/cancellation.h"
#include "core/base/signals.h"

namespace adaptdl {

// Catches the signals during its lifetime: the first one cancels, the second one ends the process
// at once. At most one object at a time.
class Interruption {
 public:
  // `act` is called with the first signal, on another thread.
  explicit Interruption(const std::vector<int>& signals, std::function<void(int)> act = {});
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  Cancellation& cancellation() { return cancellation_; }  // any thread may cancel
  int signal() const { return signal_; }                  // the signal received; 0: none

 private:
  void watch();

  const std::function<void(int)> act_;
  Cancellation cancellation_, over_;
  std::atomic<int> signal_ = 0;
  SignalCatcher catcher_;
  std::thread thread_;
};

// For work without other cancellation: on SIGINT, SIGTERM and SIGHUP (unless ignored), calls
// sweep_temporary_paths() and then ends the process.
Interruption sweep_on_signals();

}  // namespace adaptdl
