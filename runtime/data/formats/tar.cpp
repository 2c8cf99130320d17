#include "runtime/data/formats/tar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string_view>

#include "core/base/error.h"

namespace adaptdl::data {
namespace {

constexpr uint64_t kBlock = 512;
constexpr uint64_t kMaxText = 1 << 20;  // of a long name, or of a pax header

using Block = std::array<char, kBlock>;

// A field of the header, up to its first zero byte.
std::string_view field(const Block& block, size_t at, size_t size) {
  const std::string_view whole(block.data() + at, size);
  return whole.substr(0, whole.find('\0'));
}

// Octal digits with blanks around them; GNU: a binary number after a byte with its highest bit.
std::optional<uint64_t> number(const Block& block, size_t at, size_t size) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(block[at + i]); };
  if (byte(0) == 0x80) {
    uint64_t value = 0;
    for (size_t i = 1; i < size; ++i) {
      if (value >> 56 != 0) return {};
      value = value << 8 | byte(i);
    }
    return value;
  }
  std::string_view digits = field(block, at, size);
  while (digits.starts_with(' ')) digits.remove_prefix(1);
  while (digits.ends_with(' ')) digits.remove_suffix(1);
  uint64_t value = 0;
  if (digits.empty()) return value;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
  if (error != std::errc() || end != digits.data() + digits.size()) return {};
  return value;
}

// The sum of the header's bytes, with blanks in the place of the sum itself.
bool sum_is_right(const Block& block) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(block[i]);
  }
  return number(block, 148, 8) == sum;
}

bool is_compressed(const Block& block) {
  for (const std::string_view magic : {"\x1f\x8b", "\x28\xb5\x2f\xfd", "BZh",
                                       "\xfd"
                                       "7zXZ"}) {
    if (std::string_view(block.data(), kBlock).starts_with(magic)) return true;
  }
  return false;
}

// What headers before a member say of it.
struct Announced {
  std::string name;
  std::optional<uint64_t> size;
};

// The records of a pax header: "LENGTH KEY=VALUE\n". False if they are none.
bool read_pax(std::string_view text, Announced& announced, bool& sparse) {
  while (!text.empty()) {
    size_t length = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    const auto digits = static_cast<size_t>(end - text.data());
    if (error != std::errc() || length > text.size() || length < digits + 3 ||
        text[digits] != ' ' || text[length - 1] != '\n') {
      return false;
    }
    const std::string_view record = text.substr(digits + 1, length - digits - 2);
    text.remove_prefix(length);
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") announced.name = value;
    if (key.starts_with("GNU.sparse.")) sparse = true;
    if (key == "size") {
      uint64_t size = 0;
      const auto [stop, wrong] = std::from_chars(value.data(), value.data() + value.size(), size);
      if (wrong != std::errc() || stop != value.data() + value.size()) return false;
      announced.size = size;
    }
  }
  return true;
}

std::string plain_name(std::string name) {
  while (name.starts_with("./")) name.erase(0, 2);
  return name;
}

}  // namespace

std::string TarReader::text(uint64_t offset, uint64_t size) const {
  std::string bytes(size, '\0');
  read_(offset, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

std::optional<TarMember> TarReader::next() {
  Announced announced;
  uint64_t first = at_;
  for (;;) {
    Block block = {};
    const uint64_t there = std::min(kBlock, size_ - at_);
    read_(at_, std::as_writable_bytes(std::span(block)).first(there));
    if (at_ == 0 && is_compressed(block)) {
      fail("{}: is compressed, so that its members cannot be read one by one; decompress it first",
           name_);
    }
    if (there < kBlock) {
      fail("{}: truncated: the mark of its end is missing; write the file again", name_);
    }
    if (std::all_of(block.begin(), block.end(), [](char c) { return c == '\0'; })) return {};
    const std::optional<uint64_t> stored = number(block, 124, 12);
    if (!sum_is_right(block) || !stored) {
      fail("{}: {} at byte {}", name_,
           at_ == 0 ? "is not a tar file: it has no header" : "damaged: no header of a member",
           at_);
    }
    const char type = block[156];
    const bool extra = type == 'L' || type == 'K' || type == 'x' || type == 'g';
    const uint64_t size = extra ? *stored : announced.size.value_or(*stored);
    const uint64_t content = at_ + kBlock;
    if (size > size_ - content) {
      fail("{}: truncated: a member of {} bytes begins at byte {} of {}", name_, size, content,
           size_);
    }
    // The last block may be missing the bytes that fill it up.
    at_ = std::min(size_, content + (size + kBlock - 1) / kBlock * kBlock);
    if (extra && size > kMaxText) fail("{}: damaged: a name of {} bytes", name_, size);
    if (type == 'L') {
      announced.name = text(content, size);
      announced.name.resize(std::strlen(announced.name.c_str()));
      continue;
    }
    bool sparse = type == 'S';
    if (type == 'x' && !read_pax(text(content, size), announced, sparse)) {
      fail("{}: damaged: a pax header at byte {}", name_, content);
    }
    if (sparse) fail("{}: has sparse members; write the file again without tar's --sparse", name_);
    if (extra) continue;
    if (type == '0' || type == '\0' || type == '7') {
      std::string name = announced.name;
      if (name.empty()) {
        name = field(block, 0, 100);
        const bool ustar = std::memcmp(block.data() + 257, "ustar\0", 6) == 0;
        const std::string_view prefix = ustar ? field(block, 345, 155) : "";
        if (!prefix.empty()) name = std::string(prefix) + '/' + name;
      }
      return TarMember{plain_name(std::move(name)), first, content, size};
    }
    announced = {};  // a folder, a link
    first = at_;
  }
}

}  // namespace adaptdl::data
