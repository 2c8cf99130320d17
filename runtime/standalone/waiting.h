#pragma once

// When to say that something is waited for: after five seconds, and each half minute from then on.

#include <chrono>

#include "core/base/clock.h"

namespace adaptdl::standalone {

class Waiting {
 public:
  TimePoint next() const { return next_; }
  bool due(TimePoint now) {
    if (now < next_) return false;
    next_ = now + std::chrono::seconds(30);
    return true;
  }

 private:
  TimePoint next_ = Monotonic::now() + std::chrono::seconds(5);
};

}  // namespace adaptdl::standalone
