#include "core/base/number.h"

#include <array>
#include <cmath>

#include "core/base/error.h"

namespace adaptdl {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

template <typename T>
std::string range_text(T low, T high) {
  const bool from = low != std::numeric_limits<T>::lowest() && low != -kInfinity;
  const bool to = high != std::numeric_limits<T>::max() && high != kInfinity;
  if (from && to) return fmt::format(" from {} to {}", low, high);
  if (from) return fmt::format(" of at least {}", low);
  if (to) return fmt::format(" of at most {}", high);
  return "";
}

template <typename T>
T parse_bounded(std::string_view text, std::string_view what, T low, T high, const char* kind) {
  const std::optional<T> value = try_parse<T>(text);
  bool finite = true;
  if constexpr (std::is_floating_point_v<T>) finite = value && std::isfinite(*value);
  if (!value || !finite || *value < low || *value > high) {
    fail("{}: '{}' is not allowed; give {}{}", what, text, kind, range_text(low, high));
  }
  return *value;
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

// Takes "1.5 MiB" off the front of `text`: the number, blanks, a unit of letters, blanks.
struct Quantity {
  double value;
  std::string unit;
};
std::optional<Quantity> take_quantity(std::string_view& text) {
  size_t end = 0;
  while (end < text.size() && (text[end] == '.' || (text[end] >= '0' && text[end] <= '9'))) ++end;
  const std::optional<double> value = try_parse<double>(text.substr(0, end));
  if (!value) return std::nullopt;
  while (end < text.size() && text[end] == ' ') ++end;
  const size_t unit = end;
  while (end < text.size() && is_letter(text[end])) ++end;
  const std::string unit_text = lower(text.substr(unit, end - unit));
  while (end < text.size() && text[end] == ' ') ++end;
  text.remove_prefix(end);
  return Quantity{*value, unit_text};
}

std::optional<double> byte_unit(const std::string& unit) {
  if (unit.empty() || unit == "b") return 1.0;
  const size_t power = std::string_view("kmgtp").find(unit[0]);
  if (power == std::string_view::npos) return std::nullopt;
  const std::string_view rest = std::string_view(unit).substr(1);
  if (rest.empty() || rest == "i" || rest == "ib") return std::pow(1024.0, double(power) + 1);
  if (rest == "b") return std::pow(1000.0, double(power) + 1);
  return std::nullopt;
}

std::optional<double> time_unit(const std::string& unit) {
  if (unit == "us") return 1e-6;
  if (unit == "ms") return 1e-3;
  if (unit == "s" || unit == "sec") return 1.0;
  if (unit == "m" || unit == "min") return 60.0;
  if (unit == "h") return 3600.0;
  if (unit == "d") return 86400.0;
  return std::nullopt;
}

}  // namespace

int64_t parse_int(std::string_view text, std::string_view what, int64_t low, int64_t high) {
  return parse_bounded(text, what, low, high, "an integer");
}

uint64_t parse_unsigned(std::string_view text, std::string_view what, uint64_t low, uint64_t high) {
  return parse_bounded(text, what, low, high, "an integer");
}

double parse_double(std::string_view text, std::string_view what, double low, double high) {
  return parse_bounded(text, what, low, high, "a number");
}

uint64_t parse_bytes(std::string_view text, std::string_view what, uint64_t low, uint64_t high) {
  const auto refuse = [&] {
    fail("{}: '{}' is not allowed; give a size{} bytes, such as 4096, 64KiB, 10MB or 1.5GiB", what,
         text, range_text(low, high));
  };
  std::optional<uint64_t> bytes = try_parse<uint64_t>(text);  // exact above 2^53
  if (!bytes) {
    std::string_view rest = text;
    const std::optional<Quantity> quantity = take_quantity(rest);
    const std::optional<double> unit = quantity ? byte_unit(quantity->unit) : std::nullopt;
    if (!unit || !rest.empty()) refuse();
    const double value = std::floor(quantity->value * *unit);
    if (!(value < 18446744073709551616.0)) refuse();
    bytes = static_cast<uint64_t>(value);
  }
  if (*bytes < low || *bytes > high) refuse();
  return *bytes;
}

double parse_duration(std::string_view text, std::string_view what, double low, double high) {
  const auto refuse = [&] {
    fail("{}: '{}' is not allowed; give a duration{} seconds, such as 90, 500ms, 1.5h or 2m30s",
         what, text, range_text(low, high));
  };
  double seconds = 0.0;
  std::string_view rest = text;
  if (const std::optional<double> plain = try_parse<double>(text)) {
    seconds = *plain;
  } else {
    if (rest.empty()) refuse();
    while (!rest.empty()) {
      const std::optional<Quantity> quantity = take_quantity(rest);
      const std::optional<double> unit = quantity ? time_unit(quantity->unit) : std::nullopt;
      if (!unit) refuse();
      seconds += quantity->value * *unit;
    }
  }
  if (!std::isfinite(seconds) || seconds < low || seconds > high) refuse();
  return seconds;
}

std::string format_number(double value) {
  return fmt::format("{}", value);
}

std::string format_bytes(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  static constexpr std::array<const char*, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024.0;
  size_t unit = 0;
  // 1023.95 would be printed as 1024.0 of the smaller unit.
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e12) return "?";
  if (seconds == 0) return "0 s";
  if (seconds < 0.0009995) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 0.0995) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  const int64_t minutes = whole / 60, hours = whole / 3600, days = whole / 86400;
  if (hours == 0) return fmt::format("{} m {:02} s", minutes, whole % 60);
  if (days == 0) return fmt::format("{} h {:02} m", hours, minutes % 60);
  return fmt::format("{} d {:02} h", days, hours % 24);
}

std::string format_rate(double per_second, std::string_view unit) {
  if (!std::isfinite(per_second) || per_second < 0) return fmt::format("? {}/s", unit);
  static constexpr std::array<const char*, 5> kPrefixes = {"", "k ", "M ", "G ", "T "};
  size_t prefix = 0;
  while (per_second >= 999.5 && prefix + 1 < kPrefixes.size()) {
    per_second /= 1000.0;
    ++prefix;
  }
  const int digits = per_second >= 99.95 ? 0 : per_second >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}{}/s", per_second, digits, kPrefixes[prefix], unit);
}

std::string short_duration(double seconds) {
  const auto whole = static_cast<int64_t>(std::max(0.0, std::floor(seconds)));
  const int64_t minutes = whole / 60, hours = minutes / 60, days = hours / 24;
  if (minutes == 0) return fmt::format("{}s", whole);
  if (hours == 0) return fmt::format("{}m{:02}s", minutes, whole % 60);
  if (days == 0) return fmt::format("{}h{:02}m", hours, minutes % 60);
  return fmt::format("{}d{:02}h", days, hours % 24);
}

}  // namespace adaptdl
