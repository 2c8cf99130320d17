#pragma once

// Copies one file: shares its blocks where the file system can, and keeps its holes.

#include <cstdint>
#include <functional>
#include <string>

namespace adaptdl {

struct CopiedFile {
  bool found = true;     // false: the file does not exist (any more); nothing was created
  bool changed = false;  // it was modified during every attempt
  uint64_t bytes = 0;
};

// Copies the regular file `from` (no link) to `to`, which must not exist: bytes, permissions
// without set-user-ID and the like, and times. A file that changes during the copy is copied again
// a few times. `progress`, if given, is called with the number of bytes just copied; an exception
// from it aborts the copy. Throws Error with the path and the system's reason; the message names a
// full disk. A partial `to` may then remain.
CopiedFile copy_file(const std::string& from, const std::string& to,
                     const std::function<void(uint64_t bytes)>& progress = {});

// Throws the Error for creating or writing `path`: as fail_errno(), with advice if the disk is
// full.
[[noreturn]] void fail_to_write(int error_number, const std::string& path);

}  // namespace adaptdl
