#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace adaptdl {

// The parts between the separators, empty ones too: one more than there are separators. Pure.
std::vector<std::string> split(std::string_view text, char separator);

}  // namespace adaptdl
