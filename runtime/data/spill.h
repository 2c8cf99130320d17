#pragma once

// Collects a byte sequence of unknown size: in memory while small, in a temporary file when large.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/fd.h"

namespace adaptdl::data {

// Collects bytes, then returns them as one contiguous range. Beyond `threshold` bytes they are
// stored in an unnamed file in TMPDIR (or /var/tmp), which the kernel can write out when memory is
// short and which disappears with its last owner. Throws Error (a full disk). Not thread-safe.
class Spill {
 public:
  explicit Spill(std::string what, size_t threshold = 256u << 20);

  void append(std::span<const std::byte> bytes);
  size_t size() const { return written_ + memory_.size(); }

  // Ends the collection; returns the bytes and their owner.
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
