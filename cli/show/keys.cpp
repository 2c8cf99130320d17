#include "cli/show/keys.h"

#include <utility>

namespace adaptdl::cli {
namespace {

constexpr char kEscapeByte = '\x1b';
constexpr size_t kLongestSequence = 32;

constexpr std::pair<std::string_view, int> kSequences[] = {
    {"[A", kKeyUp},      {"OA", kKeyUp},        {"[B", kKeyDown}, {"OB", kKeyDown},
    {"[5~", kKeyPageUp}, {"[6~", kKeyPageDown}, {"[H", kKeyHome}, {"OH", kKeyHome},
    {"[1~", kKeyHome},   {"[F", kKeyEnd},       {"OF", kKeyEnd},  {"[4~", kKeyEnd}};

// The length of the sequence at the start of the text, after its escape byte: CSI (ECMA-48, 5.4),
// or SS3 and one character. 0: incomplete; npos: the escape key, and something else after it.
size_t sequence_length(std::string_view text) {
  if (text.empty()) return 0;
  if (text[0] == 'O') return text.size() < 2 ? 0 : 2;
  if (text[0] != '[') return std::string_view::npos;
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] >= 0x40 && text[i] <= 0x7e) return i + 1;
    if (text[i] < 0x20 || i > kLongestSequence) return std::string_view::npos;
  }
  return 0;
}

}  // namespace

std::vector<int> KeyReader::take(std::string_view bytes) {
  waiting_ += bytes;
  std::vector<int> keys;
  std::string_view rest = waiting_;
  while (!rest.empty()) {
    const char first = rest[0];
    if (first == kEscapeByte) {
      const size_t length = sequence_length(rest.substr(1));
      if (length == 0) break;
      if (length == std::string_view::npos) {
        keys.push_back(kKeyEscape);
        rest.remove_prefix(1);
        continue;
      }
      for (const auto& [sequence, key] : kSequences) {
        if (rest.substr(1, length) == sequence) keys.push_back(key);
      }
      rest.remove_prefix(1 + length);
      continue;
    }
    if (first == '\r' || first == '\n') keys.push_back(kKeyEnter);
    if (first >= ' ' && first <= '~') keys.push_back(first);
    rest.remove_prefix(1);
  }
  waiting_ = std::string(rest);
  return keys;
}

std::vector<int> KeyReader::expire() {
  if (waiting_.empty()) return {};
  const std::string rest = std::exchange(waiting_, {}).substr(1);
  std::vector<int> keys = {kKeyEscape};
  for (const int key : take(rest)) keys.push_back(key);
  return keys;
}

}  // namespace adaptdl::cli
