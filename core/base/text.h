#pragma once

// Text of any kind. Pure functions.

#include <string>
#include <string_view>
#include <vector>

namespace adaptdl {

// The parts between the separators, empty ones too: one more than there are separators.
std::vector<std::string> split(std::string_view text, char separator);

// With the letters A to Z in lower case, whatever the locale.
std::string lower_case(std::string_view text);

// Smallest number of insertions, deletions, substitutions and swaps of neighbours between two
// words.
int edit_distance(std::string_view from, std::string_view to);

// The candidate that `word` was probably meant to be: the nearest, where a third of its letters
// (at least one) may differ but not all, or the only one that starts with it. Empty when there is
// none, and for words of more than 100 letters, which nobody mistyped.
std::string nearest_name(std::string_view word, const std::vector<std::string_view>& candidates);

// " Did you mean X?", or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& candidates,
                         std::string_view prefix = "");

}  // namespace adaptdl
