#include "core/job/quantity.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "core/base/error.h"
#include "core/base/number.h"

namespace adaptdl {
namespace {

constexpr size_t kMaxDigits = 20;  // 10^20 * 2^60 still fits 128 bits

struct Suffix {
  std::string_view name;
  int ten = 0, two = 0;  // exponents
};
constexpr Suffix kSuffixes[] = {
    {"", 0, 0},    {"n", -9, 0},  {"u", -6, 0},  {"m", -3, 0},  {"k", 3, 0},   {"M", 6, 0},
    {"G", 9, 0},   {"T", 12, 0},  {"P", 15, 0},  {"E", 18, 0},  {"Ki", 0, 10}, {"Mi", 0, 20},
    {"Gi", 0, 30}, {"Ti", 0, 40}, {"Pi", 0, 50}, {"Ei", 0, 60},
};

std::optional<Suffix> suffix_of(std::string_view text) {
  for (const Suffix& suffix : kSuffixes) {
    if (suffix.name == text) return suffix;
  }
  // "E" alone is a suffix, "E3" and "e3" an exponent.
  if (text.size() < 2 || (text[0] != 'e' && text[0] != 'E')) return std::nullopt;
  text.remove_prefix(text[1] == '+' ? 2 : 1);
  const auto exponent = try_parse<int>(text);
  if (!exponent || *exponent < -99 || *exponent > 99) return std::nullopt;
  return Suffix{"", *exponent, 0};
}

int64_t parse(std::string_view text, std::string_view where, int scale) {
  const auto refuse = [&](std::string_view problem) {
    fail("{}: {} {}; give a Kubernetes quantity such as 500m, 2, 1.5Gi or 1e3", where, text,
         problem);
  };
  std::string_view rest = text;
  if (rest.starts_with('+')) rest.remove_prefix(1);
  if (rest.starts_with('-')) refuse("is negative");
  const size_t number = std::min(rest.find_first_not_of("0123456789."), rest.size());
  std::string digits(rest.substr(0, number));
  const auto suffix = suffix_of(rest.substr(number));
  if (!suffix || std::count(digits.begin(), digits.end(), '.') > 1 ||
      digits.find_first_not_of('.') == std::string::npos) {
    refuse("is not a quantity");
  }
  int ten = suffix->ten + scale;
  if (const size_t point = digits.find('.'); point != std::string::npos) {
    digits.erase(point, 1);
    while (digits.size() > point && digits.back() == '0') digits.pop_back();
    ten -= static_cast<int>(std::min<size_t>(digits.size() - point, 1000));
  }
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  if (digits.size() > kMaxDigits) refuse("has too many digits");

  unsigned __int128 value = 0;
  for (const char digit : digits) value = value * 10 + static_cast<unsigned>(digit - '0');
  bool fits = true;
  const auto multiply = [&](unsigned __int128 by) {
    fits = fits && !__builtin_mul_overflow(value, by, &value);
  };
  multiply(static_cast<unsigned __int128>(1) << suffix->two);
  bool rest_lost = false;
  for (; ten < 0 && value != 0; ++ten) {
    rest_lost = rest_lost || value % 10 != 0;
    value /= 10;
  }
  for (; ten > 0 && value != 0 && fits; --ten) multiply(10);
  if (rest_lost) ++value;
  constexpr auto kMost = static_cast<unsigned __int128>(std::numeric_limits<int64_t>::max());
  if (!fits || value > kMost) refuse("is too large");
  return static_cast<int64_t>(value);
}

}  // namespace

int64_t parse_quantity(std::string_view text, std::string_view where) {
  return parse(text, where, 0);
}

int64_t parse_quantity_milli(std::string_view text, std::string_view where) {
  return parse(text, where, 3);
}

}  // namespace adaptdl
