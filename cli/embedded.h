#pragma once

#include <string_view>

namespace adaptdl::cli {

// The text of a file compiled into the binary: <name>.md, adaptdl.bash, adaptdl.zsh,
// adaptdl.fish. Empty when there is none of that name.
std::string_view embedded(std::string_view name);

}  // namespace adaptdl::cli
