#pragma once

// Signals that end what a command does on a network, such that it can clean up.

#include <atomic>
#include <thread>
#include <vector>

#include "core/base/cancellation.h"
#include "core/launch/signals.h"

namespace adaptdl::cli {

// Catches the signals for its life: the first one cancels. At most one object at a time.
class Interruption {
 public:
  explicit Interruption(const std::vector<int>& signals);
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  Cancellation& cancellation() { return cancellation_; }  // anybody may cancel
  int signal() const { return signal_; }                  // that came; 0: none

 private:
  void watch();

  Cancellation cancellation_, over_;
  std::atomic<int> signal_ = 0;
  launch::SignalCatcher catcher_;
  std::thread thread_;
};

}  // namespace adaptdl::cli
