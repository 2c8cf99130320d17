#include "core/formats/zip.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <zlib.h>

#include "core/base/error.h"

namespace adaptdl {

namespace {

// Layout of the records, from APPNOTE 4.3; all numbers are little-endian.
constexpr uint64_t kEndSize = 22, kEnd64Size = 56, kLocator64Size = 20;
constexpr uint64_t kEntrySize = 46, kLocalSize = 30;
constexpr uint32_t kEndMark = 0x06054b50, kEnd64Mark = 0x06064b50, kLocator64Mark = 0x07064b50;
constexpr uint32_t kEntryMark = 0x02014b50, kLocalMark = 0x04034b50;
constexpr uint64_t kMaxComment = 65535;
constexpr uint16_t kZip64Extra = 1;
constexpr uint16_t kStored = 0, kDeflate = 8;
constexpr uint16_t kEncryptedMethod = 0xffff;  // our own value: encrypted, with any method

// Deflate cannot compress better than 1032 to 1.
constexpr uint64_t kMaxRatio = 1032;

bool safe_name(std::string_view name) {
  if (name.empty() || name.front() == '/') return false;
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == '\\' || c == 0x7f) return false;
  }
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    if (name.substr(begin, end - begin) == "..") return false;
    begin = end + 1;
  }
  return true;
}

}  // namespace

ZipReader::ZipReader(std::span<const std::byte> archive, std::string what, size_t max_members)
    : bytes_(archive), what_(std::move(what)) {
  const Directory directory = find_directory();
  if (directory.count > max_members) {
    fail("{}: has {} members, more than the {} allowed", what_, directory.count, max_members);
  }
  read_directory(directory);
  check_overlaps();
}

void ZipReader::damaged(const std::string& reason) const {
  fail("{}: not a ZIP archive, or a damaged one: {}", what_, reason);
}

uint64_t ZipReader::number(uint64_t offset, int width) const {
  if (offset > bytes_.size() || bytes_.size() - offset < static_cast<uint64_t>(width)) {
    damaged(fmt::format("it ends before byte {}", offset));
  }
  uint64_t value = 0;
  for (int i = width - 1; i >= 0; --i) {
    value = value << 8 | static_cast<uint64_t>(bytes_[offset + static_cast<uint64_t>(i)]);
  }
  return value;
}

ZipReader::Directory ZipReader::find_directory() const {
  const uint64_t size = bytes_.size();
  if (size < kEndSize) damaged("it is too short");
  // The end record comes last, except for a comment whose length it contains.
  uint64_t end = size - kEndSize;
  const uint64_t first = end > kMaxComment ? end - kMaxComment : 0;
  while (number(end, 4) != kEndMark || number(end + 20, 2) != size - end - kEndSize) {
    if (end == first) damaged("it has no end record; it may be truncated");
    --end;
  }
  Directory directory{number(end + 16, 4), number(end + 12, 4), number(end + 10, 2)};
  uint64_t disks = number(end + 4, 2) | number(end + 6, 2);
  uint64_t limit = end;
  const bool zip64 = end >= kLocator64Size && number(end - kLocator64Size, 4) == kLocator64Mark;
  if (zip64) {
    const uint64_t at = number(end - kLocator64Size + 8, 8);
    if (at > end - kLocator64Size || end - kLocator64Size - at < kEnd64Size ||
        number(at, 4) != kEnd64Mark) {
      damaged("its ZIP64 end record is not where it should be");
    }
    directory = {number(at + 48, 8), number(at + 40, 8), number(at + 32, 8)};
    disks = number(at + 16, 4) | number(at + 20, 4);
    limit = at;
  }
  if (disks != 0) fail("{}: is one part of a multi-part archive", what_);
  if (directory.offset > limit || limit - directory.offset < directory.size ||
      directory.count > directory.size / kEntrySize) {
    damaged("its directory does not fit into the file");
  }
  return directory;
}

void ZipReader::read_directory(const Directory& directory) {
  members_.reserve(directory.count);
  uint64_t at = directory.offset;
  for (uint64_t i = 0; i < directory.count; ++i) at = read_entry(at, directory);
  by_name_.resize(members_.size());
  for (size_t i = 0; i < by_name_.size(); ++i) by_name_[i] = i;
  std::sort(by_name_.begin(), by_name_.end(),
            [&](size_t a, size_t b) { return members_[a].name < members_[b].name; });
  for (size_t i = 1; i < by_name_.size(); ++i) {
    const std::string& name = members_[by_name_[i]].name;
    if (name == members_[by_name_[i - 1]].name) damaged(fmt::format("it contains {} twice", name));
  }
}

// One entry of the directory and the local header it points to; returns where the next begins.
uint64_t ZipReader::read_entry(uint64_t at, const Directory& directory) {
  const uint64_t directory_end = directory.offset + directory.size;
  if (directory_end - at < kEntrySize || number(at, 4) != kEntryMark) {
    damaged(fmt::format("no directory entry at byte {}", at));
  }
  const uint64_t name_size = number(at + 28, 2), extra_size = number(at + 30, 2);
  const uint64_t next = at + kEntrySize + name_size + extra_size + number(at + 32, 2);
  if (next > directory_end) damaged("a directory entry is too long");

  ZipMember member;
  member.name.assign(reinterpret_cast<const char*>(bytes_.data() + at + kEntrySize), name_size);
  if (!safe_name(member.name)) fail("{}: contains a member with a forbidden name", what_);
  const uint64_t flags = number(at + 8, 2);
  member.method = (flags & 1) != 0 ? kEncryptedMethod : static_cast<uint16_t>(number(at + 10, 2));
  member.crc32 = static_cast<uint32_t>(number(at + 16, 4));
  member.compressed_size = number(at + 20, 4);
  member.size = number(at + 24, 4);
  uint64_t header = number(at + 42, 4);

  // Numbers that need more than 32 bits are in an extra field, in this order.
  uint64_t extra = at + kEntrySize + name_size;
  const uint64_t extra_end = extra + extra_size;
  while (extra_end - extra >= 4) {
    const uint64_t id = number(extra, 2), field_size = number(extra + 2, 2);
    uint64_t field = extra + 4;
    const uint64_t field_end = field + field_size;
    if (field_end > extra_end) break;  // some writers pad with zeros; ignore the rest
    if (id == kZip64Extra) {
      for (uint64_t* value : {&member.size, &member.compressed_size, &header}) {
        if (*value != 0xffffffff) continue;
        if (field_end - field < 8) damaged(member.name + " lacks a ZIP64 size");
        *value = number(field, 8);
        field += 8;
      }
    }
    extra = field_end;
  }

  const auto misplaced = [&] { damaged(member.name + " is not where the directory says"); };
  if (header > directory.offset || directory.offset - header < kLocalSize ||
      number(header, 4) != kLocalMark) {
    misplaced();
  }
  if (number(header + 26, 2) != name_size ||
      !std::equal(member.name.begin(), member.name.end(),
                  reinterpret_cast<const char*>(bytes_.data() + header + kLocalSize))) {
    misplaced();
  }
  member.offset = header + kLocalSize + name_size + number(header + 28, 2);
  if (member.offset > directory.offset ||
      directory.offset - member.offset < member.compressed_size) {
    misplaced();
  }
  if (member.method == kStored && member.size != member.compressed_size) misplaced();
  extents_.emplace_back(header, member.offset + member.compressed_size);
  const bool folder = member.name.back() == '/';
  if (!folder) members_.push_back(std::move(member));
  return next;
}

void ZipReader::check_overlaps() const {
  // Zip bombs use members that share bytes.
  auto sorted = extents_;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i].first < sorted[i - 1].second) damaged("members overlap");
  }
}

const ZipMember* ZipReader::find(std::string_view name) const {
  const auto found = std::lower_bound(
      by_name_.begin(), by_name_.end(), name,
      [&](size_t index, std::string_view wanted) { return members_[index].name < wanted; });
  if (found == by_name_.end() || members_[*found].name != name) return nullptr;
  return &members_[*found];
}

std::span<const std::byte> ZipReader::stored_bytes(const ZipMember& member) const {
  ADAPTDL_CHECK(member.stored());
  return bytes_.subspan(member.offset, member.size);
}

std::string ZipReader::read(const ZipMember& member, uint64_t max_bytes) const {
  const std::string what = what_ + ": " + member.name;
  if (member.size > max_bytes) {
    fail("{}: its {} bytes are more than the {} allowed", what, member.size, max_bytes);
  }
  const auto data = bytes_.subspan(member.offset, member.compressed_size);
  std::string content;
  if (member.method == kStored) {
    content.assign(reinterpret_cast<const char*>(data.data()), data.size());
  } else if (member.method == kDeflate) {
    if (member.size / kMaxRatio > member.compressed_size) {
      fail("{}: damaged: its size is impossible", what);
    }
    content.resize(member.size);
    z_stream stream{};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) {
      fail("{}: not enough memory to decompress", what);
    }
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(data.data()));
    stream.next_out = reinterpret_cast<Bytef*>(content.data());
    uint64_t in_left = data.size(), out_left = content.size();
    int result = Z_OK;
    do {  // zlib counts in 32 bits
      constexpr uint64_t kMost = std::numeric_limits<uInt>::max();
      const auto in = static_cast<uInt>(std::min(in_left, kMost));
      const auto out = static_cast<uInt>(std::min(out_left, kMost));
      stream.avail_in = in;
      stream.avail_out = out;
      result = inflate(&stream, Z_NO_FLUSH);
      in_left -= in - stream.avail_in;
      out_left -= out - stream.avail_out;
    } while (result == Z_OK && in_left > 0 && out_left > 0);
    // If a block fills the buffer exactly, its end mark may still be unread.
    if (result == Z_OK && out_left == 0) {
      Bytef none = 0;
      stream.next_out = &none;
      stream.avail_in = static_cast<uInt>(std::min<uint64_t>(in_left, 1u << 16));
      stream.avail_out = 1;
      result = inflate(&stream, Z_NO_FLUSH);
      if (stream.avail_out == 0) result = Z_DATA_ERROR;
    }
    inflateEnd(&stream);
    if (result != Z_STREAM_END || out_left != 0) fail("{}: its compressed data are damaged", what);
  } else {
    const bool encrypted = member.method == kEncryptedMethod;
    fail("{}: {}; store it uncompressed or with deflate", what,
         encrypted ? "is encrypted" : fmt::format("is compressed by method {}", member.method));
  }
  const uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size());
  if (crc != member.crc32) fail("{}: damaged: its checksum is wrong", what);
  return content;
}

}  // namespace adaptdl
