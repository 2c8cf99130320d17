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

// Seconds of the monotonic clock since some moment that all processes of this boot share: for what
// counts in plain numbers. Comparable between processes of one machine, not between machines.
inline double monotonic_now_s() {
  return Seconds(Monotonic::now().time_since_epoch()).count();
}

// Seconds since 1970 by the wall clock, which may jump: for records that others read.
inline double wall_now_s() {
  return Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The wall clock as RFC 3339 UTC with milliseconds: 2026-01-31T08:05:09.123Z. For people and logs.
std::string rfc3339(std::chrono::system_clock::time_point time);

}  // namespace adaptdl
