#pragma once

#include <string_view>

namespace adaptdl::kubernetes {

// The text of a file of manifests/, compiled into the binary; empty if there is none of that name.
std::string_view manifest_file(std::string_view name);

}  // namespace adaptdl::kubernetes
