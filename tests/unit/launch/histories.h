#pragma once

// How much a test of generated histories plays.

#include <cstdint>
#include <cstdlib>

namespace adaptdl::launch::testing {

// The number that an environment variable holds; `otherwise` without it.
inline uint64_t environment_number(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace adaptdl::launch::testing
