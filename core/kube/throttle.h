#pragma once

// When a client may send its next request: a token bucket, as client-go's QPS and burst, and the
// pause that the server requested with its last 429. The pause holds for all of the client's
// requests, since each of them would only add to the server's load. Thread-safe.

#include <mutex>
#include <optional>

#include "core/base/clock.h"
#include "core/base/token_bucket.h"

namespace adaptdl::kube {

class Throttle {
 public:
  static constexpr Seconds kUsualPause{1.0};     // after a 429 without a Retry-After
  static constexpr Seconds kLongestPause{60.0};  // longer requests of the server are cut to this

  // `qps` requests a second, `burst` (>= 1) at once. qps 0: no limit.
  Throttle(double qps, int burst);

  // The rest of the server's pause; 0: there is none.
  Seconds pause(TimePoint now) const;
  // Begins a pause, unless a longer one has begun. `retry_after` 0: not given.
  void refused(Seconds retry_after, TimePoint now);

  // How long the caller must wait before its next request, which it must then send, or not at all:
  // callers wait for different times, in the order of their calls.
  Seconds reserve(TimePoint now);

 private:
  mutable std::mutex mutex_;
  std::optional<TokenBucket> bucket_;
  TimePoint paused_until_{};
};

}  // namespace adaptdl::kube
