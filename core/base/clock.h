#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace adaptdl {

// Deadlines and durations are measured on the monotonic clock, never on the wall clock.
using Monotonic = std::chrono::steady_clock;
using TimePoint = Monotonic::time_point;
using Seconds = std::chrono::duration<double>;

inline double seconds_between(TimePoint from, TimePoint to) {
  return Seconds(to - from).count();
}
inline TimePoint time_after(TimePoint start, Seconds delay) {
  return start + std::chrono::duration_cast<Monotonic::duration>(delay);
}
inline double seconds_since(TimePoint from) {
  return seconds_between(from, Monotonic::now());
}

// Seconds of the monotonic clock since a moment that all processes of this boot share. Comparable
// between processes of one machine, not between machines.
inline double monotonic_now_s() {
  return Seconds(Monotonic::now().time_since_epoch()).count();
}

// The wall clock may jump: use it for records that others read. Plain numbers are seconds since
// 1970.
using WallTime = std::chrono::system_clock::time_point;

inline double wall_seconds(WallTime time) {
  return Seconds(time.time_since_epoch()).count();
}
inline WallTime wall_time(double seconds) {
  return WallTime(std::chrono::round<WallTime::duration>(Seconds(seconds)));
}
inline double wall_now_s() {
  return wall_seconds(std::chrono::system_clock::now());
}

// RFC 3339 in UTC, with `digits` (0 to 9) of a second, rounded down: 2026-01-31T08:05:09.123Z.
std::string rfc3339(WallTime time, int digits = 3);
inline std::string rfc3339(double wall_s, int digits = 3) {
  return rfc3339(wall_time(wall_s), digits);
}

// Parses RFC 3339 text with any number of fractional digits (precise to nanoseconds), in any time
// zone, for the years 1970 to 2200. Returns nothing for other text.
std::optional<WallTime> parse_rfc3339(std::string_view text);
std::optional<double> parse_rfc3339_s(std::string_view text);  // in seconds since 1970

}  // namespace adaptdl
