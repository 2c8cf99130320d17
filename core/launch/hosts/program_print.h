#pragma once

// What tells whether hosts have the same program.

#include <cstdint>
#include <string>

namespace adaptdl::launch {

struct ProgramPrint {
  uint64_t bytes = 0;
  bool whole = true;   // the digest is of the whole file, not of its last kPrintedTail bytes
  std::string digest;  // SHA-256, hexadecimal

  bool operator==(const ProgramPrint&) const = default;
};

inline constexpr uint64_t kPrintedTail = 1u << 20;

// Of an archive, which may be large, only the end counts: it has the checksums of all that the
// archive holds. Throws Error if the file cannot be read.
ProgramPrint program_print(const std::string& path);

}  // namespace adaptdl::launch
