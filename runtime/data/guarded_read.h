#pragma once

// Reading of mapped files whose disk or network may fail. The kernel reports such a failure, and a
// file that became shorter, as the signal SIGBUS, which would end the process without a word.

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "core/base/error.h"

namespace adaptdl::data {

// Data cannot be read, also after some attempts. This ends the replica, not the run: another
// machine may be able to read them.
class ReadFailed : public Error {
 public:
  using Error::Error;
};

// A disk or a network that fails for a moment is asked again, after these times.
constexpr std::array<double, 3> kReadPauses = {0.1, 0.5, 2.0};  // s

namespace internal {
const void* call_guarded(void (*call)(const void*), const void* argument);
}

// Calls copy(), and returns the address that it could not read, or null. Where reading fails,
// copy() is left without destructors: it may only read and write memory. Thread-safe; takes
// nanoseconds, except that the first call installs a handler of SIGBUS. Elsewhere the signal does
// what it did before. The thread must not block it.
template <typename Copy>
const void* read_guarded(const Copy& copy) {
  return internal::call_guarded(
      [](const void* argument) { (*static_cast<const Copy*>(argument))(); }, &copy);
}

// The file that is mapped at an address, and the offset there; nothing if none is.
struct MappedPlace {
  std::string path;
  uint64_t offset = 0;  // bytes
};
std::optional<MappedPlace> mapped_place(const void* address);

}  // namespace adaptdl::data
