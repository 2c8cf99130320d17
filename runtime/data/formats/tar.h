#pragma once

// The headers of tar files: ustar, with the long names of GNU's tar and of pax. Contents are not
// looked at.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace adaptdl::data {

// A regular file in a tar.
struct TarMember {
  std::string name;      // as stored, without a "./" before it
  uint64_t header = 0;   // offset of its first header
  uint64_t content = 0;  // offset and size of its bytes
  uint64_t size = 0;
};

// Goes from member to member. One thread.
class TarReader {
 public:
  // Fills `out` from an offset; the bytes are within the file's size.
  using ReadAt = std::function<void(uint64_t offset, std::span<std::byte> out)>;

  // `at`: the offset of a member's first header.
  TarReader(ReadAt read, uint64_t size, std::string name, uint64_t at = 0)
      : read_(std::move(read)), size_(size), name_(std::move(name)), at_(at) {}

  // The next regular file; other entries are skipped. Nothing at the end of the archive, which has
  // a mark. Throws Error "NAME: ..." for a damaged, truncated, compressed or sparse archive, and
  // whatever the reader throws.
  std::optional<TarMember> next();

 private:
  std::string text(uint64_t offset, uint64_t size) const;

  ReadAt read_;
  uint64_t size_;
  std::string name_;
  uint64_t at_;
};

}  // namespace adaptdl::data
