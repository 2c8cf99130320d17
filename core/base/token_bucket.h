#pragma once

// A token bucket limits how often something happens: `burst` times at once, and `rate` times a
// second in the long run. The caller supplies the time, which must not run backwards. Not
// thread-safe.

#include <algorithm>

#include "core/base/clock.h"

namespace adaptdl {

class TokenBucket {
 public:
  // `rate` in tokens a second, > 0; `burst` >= 1. The bucket is full at first.
  TokenBucket(double rate, double burst, TimePoint now)
      : rate_(rate), burst_(burst), tokens_(burst), filled_(now) {}

  // Takes a token if there is one.
  bool take(TimePoint now) {
    fill(now);
    if (tokens_ < 1) return false;
    --tokens_;
    return true;
  }

  // Takes a token that may come only later, and returns the time until then. Callers that each wait
  // for their token are served in the order of their calls.
  Seconds reserve(TimePoint now) {
    fill(now);
    --tokens_;
    return Seconds(std::max(0.0, -tokens_ / rate_));
  }

  bool full(TimePoint now) const { return filled(now) >= burst_; }

 private:
  double filled(TimePoint now) const {
    return std::min(burst_, tokens_ + rate_ * std::max(0.0, seconds_between(filled_, now)));
  }
  void fill(TimePoint now) {
    tokens_ = filled(now);
    filled_ = std::max(filled_, now);
  }

  double rate_, burst_;
  double tokens_;  // negative: reserved beforehand
  TimePoint filled_;
};

}  // namespace adaptdl
