#pragma once

// Numbers as text, the same in every locale. Parsing takes the whole text or throws Error "WHAT:
// ...; what is allowed"; surrounding blanks, a plus sign and hexadecimal are not allowed.

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace adaptdl {

// Parses the whole text as a T, an integer or float type; nothing if it is not a number or does not
// fit. Texts such as inf and nan parse as floats.
template <typename T>
std::optional<T> try_parse(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

int64_t parse_int(std::string_view text, std::string_view what,
                  int64_t low = std::numeric_limits<int64_t>::min(),
                  int64_t high = std::numeric_limits<int64_t>::max());
uint64_t parse_unsigned(std::string_view text, std::string_view what, uint64_t low = 0,
                        uint64_t high = std::numeric_limits<uint64_t>::max());

// A finite number in [low, high].
double parse_double(std::string_view text, std::string_view what,
                    double low = -std::numeric_limits<double>::infinity(),
                    double high = std::numeric_limits<double>::infinity());

// A size in bytes: "4096", "10 MiB", "1.5GB". K, M, G, T and KiB, MiB, ... are powers of 1024,
// kB, MB, ... of 1000; letter case is free. Rounded down to whole bytes.
uint64_t parse_bytes(std::string_view text, std::string_view what, uint64_t low = 0,
                     uint64_t high = std::numeric_limits<uint64_t>::max());

// A duration in seconds: "90", "1.5h", "500ms", "2m 30s", "1d". Units: us ms s m (or min) h d.
double parse_duration(std::string_view text, std::string_view what, double low = 0.0,
                      double high = std::numeric_limits<double>::infinity());

// The shortest text that reads back as the same number: 0.1, 1e-05, 3.
std::string format_number(double value);

// For people. Bytes: "512 B", "1.4 GiB". Seconds: "450 ms", "4.2 s", "2 m 03 s", "1 h 02 m", "3 d
// 04 h"; negative or not finite seconds give "?". Rates: three digits of value, "1.25 k UNIT/s".
std::string format_bytes(uint64_t bytes);
std::string format_duration(double seconds);
std::string format_rate(double per_second, std::string_view unit);

// "45s", "12m07s", "3h05m", "4d02h": without blanks, for columns.
std::string short_duration(double seconds);

}  // namespace adaptdl
