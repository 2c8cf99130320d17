#pragma once

// What the recorder shares: the system calls themselves, which files and folders are the test's,
// and which calls are to fail. Nothing here changes errno unless it says so.

#include <cstdint>
#include <string>
#include <type_traits>
#include <unistd.h>

#include "tests/power/log.h"

namespace power {

template <typename T>
long word(T argument) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<long>(argument);
  } else {
    return static_cast<long>(argument);
  }
}

// A system call, not the C library's function, for which the recorder stands in. Its arguments must
// be whole words. Sets errno.
long call(long number, auto... arguments) {
  return ::syscall(number, word(arguments)...);
}

const char* log_path();

// Whether this process is recorded.
bool recorded();

// The inode of a file or folder of the test; 0 if it is none.
uint64_t inode_of(int fd);

// The folder of a name, and what has the name there.
struct Place {
  Place(int at, const char* path);
  explicit operator bool() const { return folder != 0; }

  uint64_t folder = 0;  // 0: not of the test
  uint64_t inode = 0;   // 0: nothing has the name
  std::string name;
};

// Whether this call, of a kind of Control's, is one to fail; sets errno then. For the holder of the
// turn.
bool fails(uint32_t kind);

void record(const Turn& turn, const Record& what);

}  // namespace power
