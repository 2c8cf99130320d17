#pragma once

// Text of any kind. Pure functions.

#include <string>
#include <string_view>
#include <vector>

namespace adaptdl {

// The parts between the separators, empty ones too: one more than there are separators.
std::vector<std::string> split(std::string_view text, char separator);

// Control characters become blanks: a line that others have written, for people. So do those of
// eight bits (U+0080 to U+009F), which some terminals obey, too.
std::string without_controls(std::string line);

// Whether a control character of eight bits starts at text[at], as UTF-8, two bytes long.
bool is_wide_control(std::string_view text, size_t at);

// The longest beginning of valid UTF-8 that has at most `bytes` bytes and cuts no character.
std::string_view utf8_prefix(std::string_view text, size_t bytes);

// Without the blanks at its ends; a part of `text`.
std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r\n");

// Converts the letters A to Z to lower case, in any locale.
std::string lower_case(std::string_view text);

// Smallest number of insertions, deletions, substitutions and swaps of neighbours between two
// words.
int edit_distance(std::string_view from, std::string_view to);

// The candidate that `word` probably means: the nearest one, where up to a third of its letters (at
// least one) but not all may differ, or else the only one that starts with it. Empty if there is
// none, and for words of more than 100 letters, which are not typing errors.
std::string nearest_name(std::string_view word, const std::vector<std::string_view>& candidates);

// " Did you mean X?", or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& candidates,
                         std::string_view prefix = "");

}  // namespace adaptdl
