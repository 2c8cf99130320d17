#pragma once

// Signals that end what a command does, such that it can clean up.

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "core/base/cancellation.h"
#include "core/base/signals.h"

namespace adaptdl {

// Catches the signals for its life: the first one cancels, and the second one ends the process at
// once. At most one object at a time.
class Interruption {
 public:
  // `act` hears the first one on another thread.
  explicit Interruption(const std::vector<int>& signals, std::function<void(int)> act = {});
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  Cancellation& cancellation() { return cancellation_; }  // anybody may cancel
  int signal() const { return signal_; }                  // that came; 0: none

 private:
  void watch();

  const std::function<void(int)> act_;
  Cancellation cancellation_, over_;
  std::atomic<int> signal_ = 0;
  SignalCatcher catcher_;
  std::thread thread_;
};

// For work that nothing else cancels: SIGINT, SIGTERM and SIGHUP, unless they are ignored, remove
// what sweep_temporary_paths() does, and then end the process.
Interruption sweep_on_signals();

}  // namespace adaptdl
