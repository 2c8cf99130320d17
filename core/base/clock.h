#pragma once

#include <chrono>
#include <string>

namespace adaptdl {

// Deadlines and durations are measured on the monotonic clock, never on the wall clock.
using Monotonic = std::chrono::steady_clock;
using TimePoint = Monotonic::time_point;
using Seconds = std::chrono::duration<double>;

inline double seconds_between(TimePoint from, TimePoint to) {
  return Seconds(to - from).count();
}
inline double seconds_since(TimePoint from) {
  return seconds_between(from, Monotonic::now());
}

// The wall clock as RFC 3339 UTC with milliseconds: 2026-01-31T08:05:09.123Z. For people and logs.
std::string rfc3339(std::chrono::system_clock::time_point time);

}  // namespace adaptdl
