#include "core/base/clock.h"

#include <ctime>
#include <fmt/format.h>

namespace adaptdl {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Removes `count` digits from the front of `text` and returns their value; -1 if there are fewer.
int take_number(std::string_view& text, size_t count) {
  if (text.size() < count) return -1;
  int value = 0;
  for (const char c : text.substr(0, count)) {
    if (!is_digit(c)) return -1;
    value = value * 10 + (c - '0');
  }
  text.remove_prefix(count);
  return value;
}

bool take(std::string_view& text, std::string_view any_of) {
  if (text.empty() || any_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::string rfc3339(WallTime time, int digits) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(time);
  const std::time_t seconds_utc = std::chrono::system_clock::to_time_t(whole);
  std::tm parts{};
  gmtime_r(&seconds_utc, &parts);
  std::string text =
      fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                  parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
  if (digits > 0) {
    const auto part = std::chrono::duration_cast<std::chrono::nanoseconds>(time - whole);
    text += fmt::format(".{:09}", part.count()).substr(0, 1 + static_cast<size_t>(digits));
  }
  return text + "Z";
}

std::optional<WallTime> parse_rfc3339(std::string_view text) {
  std::tm parts{};
  const int year = take_number(text, 4);
  if (year < 1970 || year > 2200 || !take(text, "-")) return std::nullopt;
  const int month = take_number(text, 2);
  if (month < 1 || month > 12 || !take(text, "-")) return std::nullopt;
  const int day = take_number(text, 2);
  if (day < 1 || day > 31 || !take(text, "Tt ")) return std::nullopt;
  const int hour = take_number(text, 2);
  if (hour < 0 || hour > 23 || !take(text, ":")) return std::nullopt;
  const int minute = take_number(text, 2);
  if (minute < 0 || minute > 59 || !take(text, ":")) return std::nullopt;
  const int second = take_number(text, 2);
  if (second < 0 || second > 60) return std::nullopt;

  int64_t fraction = 0;
  if (take(text, ".")) {
    if (text.empty() || !is_digit(text.front())) return std::nullopt;
    for (int64_t unit = 100'000'000; !text.empty() && is_digit(text.front()); unit /= 10) {
      fraction += (text.front() - '0') * unit;
      text.remove_prefix(1);
    }
  }
  int offset = 0;  // minutes east
  if (!take(text, "Zz")) {
    const bool west = !text.empty() && text.front() == '-';
    if (!take(text, "+-")) return std::nullopt;
    const int hours = take_number(text, 2);
    if (hours < 0 || hours > 23 || !take(text, ":")) return std::nullopt;
    const int minutes = take_number(text, 2);
    if (minutes < 0 || minutes > 59) return std::nullopt;
    offset = (hours * 60 + minutes) * (west ? -1 : 1);
  }
  if (!text.empty()) return std::nullopt;

  parts.tm_year = year - 1900;
  parts.tm_mon = month - 1;
  parts.tm_mday = day;
  parts.tm_hour = hour;
  parts.tm_min = minute;
  parts.tm_sec = second;
  const std::time_t whole = timegm(&parts);
  if (parts.tm_mday != day && second != 60) return std::nullopt;  // 30 February
  return WallTime(std::chrono::duration_cast<WallTime::duration>(
      std::chrono::seconds(whole) - std::chrono::minutes(offset) +
      std::chrono::nanoseconds(fraction)));
}

std::optional<double> parse_rfc3339_s(std::string_view text) {
  const auto time = parse_rfc3339(text);
  return time ? std::optional(wall_seconds(*time)) : std::nullopt;
}

}  // namespace adaptdl
