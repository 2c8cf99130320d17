#pragma once

// Waiting for what other threads or processes do.

#include <chrono>
#include <thread>

#include "core/base/clock.h"

namespace adaptdl::testing {

// Whether the condition comes to hold within 30 s, enough on a busy machine.
template <typename Condition>
bool soon(Condition condition) {
  const TimePoint begun = Monotonic::now();
  while (!condition()) {
    if (seconds_since(begun) > 30) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace adaptdl::testing
