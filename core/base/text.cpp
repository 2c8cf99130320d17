#include "core/base/text.h"

#include <algorithm>
#include <fmt/format.h>

namespace adaptdl {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string without_controls(std::string line) {
  for (size_t i = 0; i < line.size(); ++i) {
    if (is_wide_control(line, i)) line[i] = line[i + 1] = ' ';
    if (static_cast<unsigned char>(line[i]) < 0x20 || line[i] == 0x7f) line[i] = ' ';
  }
  return line;
}

bool is_wide_control(std::string_view text, size_t at) {
  if (at + 1 >= text.size() || text[at] != '\xc2') return false;
  const auto next = static_cast<unsigned char>(text[at + 1]);
  return next >= 0x80 && next <= 0x9f;
}

std::string_view utf8_prefix(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

std::string_view trimmed(std::string_view text, std::string_view blanks) {
  const size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return text.substr(0, 0);
  return text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

int edit_distance(std::string_view from, std::string_view to) {
  // Three rows of the usual table: the one before the last is needed for swaps.
  std::vector<int> older(to.size() + 1), old(to.size() + 1), now(to.size() + 1);
  for (size_t j = 0; j <= to.size(); ++j) old[j] = static_cast<int>(j);
  for (size_t i = 1; i <= from.size(); ++i) {
    now[0] = static_cast<int>(i);
    for (size_t j = 1; j <= to.size(); ++j) {
      const int replaced = old[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      now[j] = std::min({old[j] + 1, now[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
        now[j] = std::min(now[j], older[j - 2] + 1);
      }
    }
    std::swap(older, old);
    std::swap(old, now);
  }
  return old[to.size()];
}

std::string nearest_name(std::string_view word, const std::vector<std::string_view>& candidates) {
  constexpr size_t kMost = 100;  // the time grows with the product of the lengths
  if (word.size() > kMost) return "";
  const int allowed = std::max(1, static_cast<int>(word.size()) / 3);
  int best = allowed + 1;
  std::string_view found;
  std::vector<std::string_view> starting;
  for (const std::string_view candidate : candidates) {
    const int distance = edit_distance(word, candidate);
    if (distance < best && distance < static_cast<int>(std::max(word.size(), candidate.size()))) {
      best = distance;
      found = candidate;
    }
    if (word.size() >= 2 && candidate.starts_with(word)) starting.push_back(candidate);
  }
  if (found.empty() && starting.size() == 1) found = starting.front();
  return std::string(found);
}

std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& candidates,
                         std::string_view prefix) {
  const std::string found = nearest_name(word, candidates);
  return found.empty() ? "" : fmt::format(" Did you mean {}{}?", prefix, found);
}

}  // namespace adaptdl
