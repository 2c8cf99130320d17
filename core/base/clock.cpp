#include "core/base/clock.h"

#include <ctime>
#include <fmt/format.h>

namespace adaptdl {

std::string rfc3339(std::chrono::system_clock::time_point time) {
  using namespace std::chrono;
  const auto whole = floor<seconds>(time);
  const auto millis = duration_cast<milliseconds>(time - whole).count();
  const std::time_t seconds_utc = system_clock::to_time_t(whole);
  std::tm parts{};
  gmtime_r(&seconds_utc, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                     millis);
}

}  // namespace adaptdl
