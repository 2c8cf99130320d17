#pragma once

// Bytes of a size not known before: in memory while few, in a temporary file when many.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/fd.h"

namespace adaptdl::data {

// Collects bytes, then gives them out as one stretch. Beyond `threshold` bytes they live in a file
// without a name in TMPDIR (or /var/tmp), which the kernel may write out when memory is short and
// which goes with the last owner. Errors (a full disk) are Error. Not thread-safe.
class Spill {
 public:
  explicit Spill(std::string what, size_t threshold = 256u << 20);

  void append(std::span<const std::byte> bytes);
  size_t size() const { return written_ + memory_.size(); }

  // The bytes and what keeps them. Ends the collection.
  struct Result {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
  };
  Result finish();

 private:
  void flush();

  std::string what_;  // for messages
  size_t threshold_;
  std::vector<std::byte> memory_;  // not yet in the file
  size_t written_ = 0;
  Fd file_;
};

}  // namespace adaptdl::data
