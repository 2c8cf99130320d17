#pragma once

// Reading ZIP archives (APPNOTE 6.3, ZIP64 included): train.pt and .npz. For untrusted files: every
// size is checked against the bytes present before memory is allocated.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace adaptdl {

struct ZipMember {
  std::string name;              // relative, with '/', without ".." and control characters
  uint64_t size = 0;             // bytes
  uint64_t compressed_size = 0;  // bytes
  uint64_t offset = 0;           // of the data in the file
  uint32_t crc32 = 0;
  uint16_t method = 0;

  // Uncompressed: the data are `size` bytes of the file from `offset` on.
  bool stored() const { return method == 0; }
};

// An archive held in memory, or mapped; borrows the bytes. Constant after construction, so safe to
// share between threads.
class ZipReader {
 public:
  // `what` names the archive in messages. Throws Error for an invalid archive: truncated,
  // multi-part, overlapping members, two members of one name, a name that leads out of the archive,
  // or more than `max_members` members. Folders are omitted.
  ZipReader(std::span<const std::byte> archive, std::string what, size_t max_members = 100'000);

  const std::vector<ZipMember>& members() const { return members_; }  // in the archive's order

  // nullptr if not found. O(log members).
  const ZipMember* find(std::string_view name) const;

  // The member's content, its checksum verified. Throws Error if it is larger than `max_bytes`,
  // damaged, encrypted, or compressed by anything but deflate.
  std::string read(const ZipMember& member, uint64_t max_bytes) const;

  // The bytes of a stored member, in place and unverified. Requires: member.stored().
  std::span<const std::byte> stored_bytes(const ZipMember& member) const;

 private:
  struct Directory {
    uint64_t offset, size, count;
  };
  [[noreturn]] void damaged(const std::string& reason) const;
  uint64_t number(uint64_t offset, int width) const;
  Directory find_directory() const;
  void read_directory(const Directory& directory);
  uint64_t read_entry(uint64_t at, const Directory& directory);
  void check_overlaps() const;

  std::span<const std::byte> bytes_;
  std::string what_;
  std::vector<ZipMember> members_;
  std::vector<std::pair<uint64_t, uint64_t>> extents_;  // header to end of data, of all entries
  std::vector<size_t> by_name_;                         // indexes of members_
};

}  // namespace adaptdl
