#pragma once

// Times as the API writes them. Pure functions.

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace adaptdl::kube {

using WallTime = std::chrono::system_clock::time_point;

// RFC 3339 with any number of digits of a second, down to nanoseconds, and any zone; years 1970 to
// 2200. Nothing for what is none.
std::optional<WallTime> parse_time(std::string_view text);

// Time, as in metadata: "2026-01-31T08:05:09Z".
std::string format_time(WallTime time);
// MicroTime, as in leases and events: "2026-01-31T08:05:09.123456Z". Nothing else is taken there.
std::string format_micro_time(WallTime time);

}  // namespace adaptdl::kube
