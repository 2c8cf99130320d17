#pragma once

// Files as other programs write them, byte by byte.

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "runtime/data/dataset.h"

namespace fixtures {

template <typename T>
std::string raw(const std::vector<T>& values, bool big_endian = false) {
  std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  if (big_endian) {
    for (size_t i = 0; i < bytes.size(); i += sizeof(T)) {
      for (size_t j = 0; j < sizeof(T) / 2; ++j) {
        std::swap(bytes[i + j], bytes[i + sizeof(T) - 1 - j]);
      }
    }
  }
  return bytes;
}

// A .npy file with the given header dictionary, padded as numpy does.
inline std::string npy(const std::string& header, const std::string& data, int version = 1) {
  const size_t prefix = version == 1 ? 10 : 12;
  std::string text = header;
  while ((prefix + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  std::string file = std::string("\x93NUMPY") + static_cast<char>(version) + '\0';
  const auto length = static_cast<uint32_t>(text.size());
  file += std::string(reinterpret_cast<const char*>(&length), version == 1 ? 2 : 4);
  return file + text + data;
}

inline std::string npy(const std::string& descr, const std::string& shape,
                       const std::string& data) {
  return npy("{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }", data);
}

// An IDX file; `dimensions` below 2^31.
inline std::string idx(uint8_t type, const std::vector<uint32_t>& dimensions,
                       const std::string& data) {
  std::string file{'\0', '\0', static_cast<char>(type), static_cast<char>(dimensions.size())};
  return file + raw(dimensions, true) + data;
}

inline std::string write(const adaptdl::TemporaryDirectory& folder, const std::string& name,
                         const std::string& content) {
  const std::string path = folder.file(name);
  adaptdl::write_file_atomic(path, content);
  return path;
}

inline std::span<const std::byte> bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// The chosen rows of a column as values of T.
template <typename T>
std::vector<T> rows(const adaptdl::data::Column& column, const std::vector<int64_t>& which) {
  std::vector<T> result(which.size() * column.row_bytes() / sizeof(T));
  column.copy_rows(which, reinterpret_cast<std::byte*>(result.data()));
  return result;
}

// What the Error that `call` throws says; "" if it throws none.
template <typename Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const adaptdl::Error& error) {
    return error.what();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace fixtures
