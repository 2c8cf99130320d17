#pragma once

#include <string_view>

namespace adaptdl::kubernetes {

// The text of a file in manifests/, embedded in the binary; empty if not found.
std::string_view manifest_file(std::string_view name);

}  // namespace adaptdl::kubernetes
