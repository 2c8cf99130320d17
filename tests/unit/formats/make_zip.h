#pragma once

// A plain writer of ZIP archives for tests: no checks, so that it can also write wrong ones.

#include <cstdint>
#include <string>
#include <vector>
#include <zlib.h>

namespace adaptdl {

struct ZipInput {
  std::string name, content;
  bool deflate = false;
};

inline std::string little_endian(uint64_t value, int width) {
  std::string text;
  for (int i = 0; i < width; ++i) text += i < 8 ? static_cast<char>(value >> (8 * i)) : char{0};
  return text;
}

inline std::string deflated(const std::string& content) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string result(deflateBound(&stream, content.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  ::deflate(&stream, Z_FINISH);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

// `zip64`: all sizes and offsets in extra fields, and a ZIP64 end record.
inline std::string make_zip(const std::vector<ZipInput>& inputs, bool zip64 = false) {
  std::string out, directory;
  for (const ZipInput& input : inputs) {
    const std::string data = input.deflate ? deflated(input.content) : input.content;
    const uint64_t offset = out.size();
    const uLong crc = crc32(0, reinterpret_cast<const Bytef*>(input.content.data()),
                            static_cast<uInt>(input.content.size()));
    const std::string sizes =
        little_endian(input.content.size(), 8) + little_endian(data.size(), 8);
    const std::string extra =
        zip64 ? little_endian(1, 2) + little_endian(24, 2) + sizes + little_endian(offset, 8) : "";
    const std::string common = little_endian(20, 2) + little_endian(0, 2) +
                               little_endian(input.deflate ? 8 : 0, 2) + little_endian(0, 4) +
                               little_endian(crc, 4) +
                               little_endian(zip64 ? 0xffffffff : data.size(), 4) +
                               little_endian(zip64 ? 0xffffffff : input.content.size(), 4) +
                               little_endian(input.name.size(), 2) + little_endian(extra.size(), 2);
    out += "PK\x03\x04" + common + input.name + extra + data;
    directory += std::string("PK\x01\x02") + little_endian(20, 2) + common + little_endian(0, 10) +
                 little_endian(zip64 ? 0xffffffff : offset, 4) + input.name + extra;
  }
  const uint64_t start = out.size();
  out += directory;
  if (zip64) {
    const uint64_t at = out.size();
    out += "PK\x06\x06" + little_endian(44, 8) + little_endian(45, 2) + little_endian(45, 2) +
           little_endian(0, 8) + little_endian(inputs.size(), 8) + little_endian(inputs.size(), 8) +
           little_endian(directory.size(), 8) + little_endian(start, 8);
    out += "PK\x06\x07" + little_endian(0, 4) + little_endian(at, 8) + little_endian(1, 4);
  }
  out += "PK\x05\x06" + little_endian(0, 4) + little_endian(zip64 ? 0xffff : inputs.size(), 2) +
         little_endian(zip64 ? 0xffff : inputs.size(), 2) +
         little_endian(zip64 ? 0xffffffff : directory.size(), 4) +
         little_endian(zip64 ? 0xffffffff : start, 4) + little_endian(0, 2);
  return out;
}

}  // namespace adaptdl
