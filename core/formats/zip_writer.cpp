#include "core/formats/zip_writer.h"

#include <algorithm>
#include <zlib.h>

#include "core/base/error.h"

namespace adaptdl {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kVersion = 45;                // of the format: ZIP64
constexpr uint64_t kIn64 = 0xffffffff;           // "see the ZIP64 field"
constexpr size_t kLocalHeader = 30, kExtra = 4;  // bytes without name and fields; of a field's head

std::string little_endian_text(uint64_t value, int width) {
  std::string text;
  for (int i = 0; i < width; ++i) text += static_cast<char>((value >> (8 * i)) & 0xff);
  return text;
}

uint32_t checksum(std::string_view content) {
  uLong crc = crc32(0, nullptr, 0);
  constexpr size_t kPart = 1u << 30;  // zlib counts with 32 bits
  for (size_t at = 0; at < content.size(); at += kPart) {
    const size_t size = std::min(kPart, content.size() - at);
    crc = crc32(crc, reinterpret_cast<const Bytef*>(content.data() + at), static_cast<uInt>(size));
  }
  return static_cast<uint32_t>(crc);
}

}  // namespace

ZipWriter::ZipWriter(std::function<void(std::string_view)> write) : write_(std::move(write)) {}

void ZipWriter::out(std::string_view bytes) {
  write_(bytes);
  written_ += bytes.size();
}

void ZipWriter::add(const std::string& name, std::string_view content) {
  ADAPTDL_CHECK(name.size() < 65000);
  const auto& number = little_endian_text;
  const uint64_t offset = written_;
  const std::string sizes = number(content.size(), 8) + number(content.size(), 8);
  const std::string in64 = number(1, 2) + number(sizes.size(), 2) + sizes;
  const uint64_t before = offset + kLocalHeader + name.size() + in64.size() + kExtra;
  const uint64_t padding = (kAlignment - before % kAlignment) % kAlignment;
  // "FB" is the field with which PyTorch aligns.
  const std::string extra = in64 + "FB" + number(padding, 2) + std::string(padding, 'Z');
  const std::string common = number(kVersion, 2) + number(0, 2) + number(0, 2) + number(0, 4) +
                             number(checksum(content), 4) + number(kIn64, 4) + number(kIn64, 4) +
                             number(name.size(), 2);
  out("PK\x03\x04" + common + number(extra.size(), 2) + name + extra);
  out(content);
  const std::string place = number(1, 2) + number(sizes.size() + 8, 2) + sizes + number(offset, 8);
  directory_ += "PK\x01\x02" + number(kVersion, 2) + common + number(place.size(), 2) +
                std::string(10, '\0') + number(kIn64, 4) + name + place;
  ++members_;
}

void ZipWriter::finish() {
  const auto& number = little_endian_text;
  const uint64_t start = written_;
  out(directory_);
  const uint64_t end = written_;
  out("PK\x06\x06" + number(44, 8) + number(kVersion, 2) + number(kVersion, 2) + number(0, 8) +
      number(members_, 8) + number(members_, 8) + number(directory_.size(), 8) + number(start, 8));
  out("PK\x06\x07" + number(0, 4) + number(end, 8) + number(1, 4));
  out("PK\x05\x06" + number(0, 4) + number(0xffff, 2) + number(0xffff, 2) + number(kIn64, 4) +
      number(kIn64, 4) + number(0, 2));
}

}  // namespace adaptdl
