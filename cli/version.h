#pragma once

#include <string>

namespace adaptdl::cli {

// "0.1.0": SemVer, from the root meson.build.
std::string version();

// The commit built from, "unknown" outside a repository.
std::string commit();

// "adaptdl 0.1.0 (0123abcd)"
std::string version_line();

}  // namespace adaptdl::cli
