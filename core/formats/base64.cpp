#include "core/formats/base64.h"

#include <array>
#include <cstdint>

#include "core/base/error.h"

namespace adaptdl {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr auto kValues = [] {
  std::array<int8_t, 256> values{};
  values.fill(-1);
  for (size_t i = 0; i < kDigits.size(); ++i) {
    values[static_cast<unsigned char>(kDigits[i])] = static_cast<int8_t>(i);
  }
  return values;
}();

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : bytes) {
    bits = (bits << 8) | static_cast<unsigned char>(c);
    for (count += 8; count >= 6; count -= 6) text += kDigits[(bits >> (count - 6)) & 63];
  }
  if (count > 0) text += kDigits[(bits << (6 - count)) & 63];
  while (text.size() % 4 != 0) text += '=';
  return text;
}

std::string from_base64(std::string_view text, std::string_view what) {
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  uint32_t bits = 0;
  int count = 0;
  size_t digits = 0, padding = 0;
  for (const char c : text) {
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n') continue;
    const int value = kValues[static_cast<unsigned char>(c)];
    if (c == '=') {
      ++padding;
    } else if (value < 0 || padding > 0) {
      fail("{}: not valid base64", what);
    } else {
      ++digits;
      bits = (bits << 6) | static_cast<uint32_t>(value);
      if ((count += 6) >= 8) bytes += static_cast<char>(bits >> (count -= 8));
    }
  }
  if (padding > 2 || (digits + padding) % 4 != 0) {
    fail("{}: not valid base64: it is truncated", what);
  }
  return bytes;
}

}  // namespace adaptdl
