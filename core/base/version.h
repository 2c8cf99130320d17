#pragma once

#include <string>

namespace adaptdl {

// SemVer, from the root meson.build.
std::string version();

// The commit built from, "unknown" outside a repository.
std::string commit();

// "adaptdl VERSION (COMMIT)"
std::string version_line();

}  // namespace adaptdl
