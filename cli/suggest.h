#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace adaptdl::cli {

// Smallest number of insertions, deletions, substitutions and swaps of neighbours between two
// words.
int edit_distance(std::string_view from, std::string_view to);

// The candidate that `word` was probably meant to be: the nearest, where a third of its letters
// (at least one) may differ, or the only one that starts with it. Empty when there is none.
std::string suggest(std::string_view word, const std::vector<std::string_view>& candidates);

// " Did you mean X?", or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& candidates,
                         std::string_view prefix = "");

}  // namespace adaptdl::cli
