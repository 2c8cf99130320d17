#pragma once

// Copying one file, by sharing its blocks where the file system can, and always without its holes.

#include <cstdint>
#include <functional>
#include <string>

namespace adaptdl {

struct CopiedFile {
  bool found = true;     // false: there is no such file (any more), and nothing was made
  bool changed = false;  // it was written to meanwhile, each time it was tried
  uint64_t bytes = 0;
};

// Copies the regular file `from` (no link) to `to`, which must not exist: bytes, permissions
// without set-user-ID and the like, and times. A file that changes meanwhile is copied again a few
// times. `progress`, if given, hears of bytes as they are copied; what it throws ends the copy.
// Throws Error with the path and the system's reason; for a full disk it says so. `to` may then be
// left, in part.
CopiedFile copy_file(const std::string& from, const std::string& to,
                     const std::function<void(uint64_t bytes)>& progress = {});

// Throws the Error for making or writing `path`: as fail_errno(), with what to do when it is a full
// disk.
[[noreturn]] void fail_to_write(int error_number, const std::string& path);

}  // namespace adaptdl
