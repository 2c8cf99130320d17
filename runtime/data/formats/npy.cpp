#include <charconv>
#include <cstring>
#include <string_view>

#include "core/base/error.h"
#include "runtime/data/formats/readers.h"

namespace adaptdl::data {
namespace {

constexpr size_t kMaxHeader = 64u << 10;  // numpy itself refuses 10000 and more
constexpr size_t kMaxDimensions = 32;
constexpr size_t kMaxTransposed = 1u << 30;

struct Header {
  std::string descr;
  bool fortran = false;
  std::vector<int64_t> shape;
  bool has_descr = false, has_fortran = false, has_shape = false;
};

// The header is a Python dictionary with exactly three entries, as repr() writes it:
// {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Header parse() {
    Header header;
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr" && !header.has_descr) {
        skip();
        if (!at('\'') && !at('"')) {
          fail(
              "{}: holds structured elements, not an array of numbers; save each field as an "
              "separate array",
              name_);
        }
        header.descr = quoted();
        header.has_descr = true;
      } else if (key == "fortran_order" && !header.has_fortran) {
        header.fortran = boolean();
        header.has_fortran = true;
      } else if (key == "shape" && !header.has_shape) {
        header.shape = tuple();
        header.has_shape = true;
      } else {
        fail("{}: unexpected \"{}\" in the .npy header", name_, key);
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip();
    if (place_ != text_.size()) broken();
    if (!header.has_descr || !header.has_fortran || !header.has_shape) broken();
    return header;
  }

 private:
  [[noreturn]] void broken() {
    fail("{}: damaged .npy header (at character {}); write the file again with numpy.save", name_,
         place_);
  }
  void skip() {
    while (place_ < text_.size() && std::strchr(" \t\n\r", text_[place_]) && text_[place_] != 0) {
      ++place_;
    }
  }
  bool at(char c) { return place_ < text_.size() && text_[place_] == c; }
  bool accept(char c) {
    skip();
    if (!at(c)) return false;
    ++place_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) broken();
  }
  std::string quoted() {
    skip();
    if (!at('\'') && !at('"')) broken();
    const char quote = text_[place_++];
    const size_t end = text_.find(quote, place_);
    if (end == std::string_view::npos || end - place_ > 64) broken();
    std::string result(text_.substr(place_, end - place_));
    place_ = end + 1;
    return result;
  }
  bool boolean() {
    skip();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(place_, word.size()) == word) {
        place_ += word.size();
        return value;
      }
    }
    broken();
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> result;
    expect('(');
    while (!accept(')')) {
      skip();
      int64_t value = 0;
      const char* end = text_.data() + text_.size();
      const auto [stopped, error] = std::from_chars(text_.data() + place_, end, value);
      if (error != std::errc() || value < 0) broken();
      place_ = static_cast<size_t>(stopped - text_.data());
      if (at('L')) ++place_;  // Python 2's long integers
      result.push_back(value);
      if (result.size() > kMaxDimensions) {
        fail("{}: more than {} dimensions", name_, kMaxDimensions);
      }
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return result;
  }

  std::string_view text_;
  const std::string& name_;
  size_t place_ = 0;
};

DType element_type(const std::string& descr, const std::string& name, bool& swapped) {
  struct Known {
    const char* code;
    DType type;
  };
  static constexpr Known kKnown[] = {
      {"f4", DType::float32}, {"f8", DType::float64}, {"f2", DType::float16}, {"i8", DType::int64},
      {"i4", DType::int32},   {"i2", DType::int16},   {"i1", DType::int8},    {"u1", DType::uint8},
      {"b1", DType::boolean}, {"u2", DType::uint16},  {"u4", DType::uint32}};
  if (descr.size() >= 2 && std::strchr("<>|=", descr[0])) {
    for (const Known& entry : kKnown) {
      if (descr.substr(1) != entry.code) continue;
      swapped = descr[0] == '>' && size_of(entry.type) > 1;
      return entry.type;
    }
  }
  fail(
      "{}: unsupported NumPy element type \"{}\"; convert the array, for example with "
      "array.astype(numpy.float32), and save it again",
      name, descr);
}

// Copies an array with the first dimension varying fastest to one with the last varying fastest.
template <typename T>
void transpose(const std::byte* from, std::span<const int64_t> shape, std::byte* to) {
  const size_t rank = shape.size();
  std::vector<int64_t> stride(rank), index(rank, 0);
  int64_t elements = 1;
  for (size_t d = 0; d < rank; ++d) {
    stride[d] = elements;
    elements *= shape[d];
  }
  int64_t source = 0;
  for (int64_t i = 0; i < elements; ++i) {
    std::memcpy(to + static_cast<size_t>(i) * sizeof(T),
                from + static_cast<size_t>(source) * sizeof(T), sizeof(T));
    for (size_t d = rank; d-- > 0;) {
      source += stride[d];
      if (++index[d] < shape[d]) break;
      source -= stride[d] * shape[d];
      index[d] = 0;
    }
  }
}

}  // namespace

size_t array_bytes(std::span<const int64_t> shape, size_t element_bytes, size_t limit,
                   const std::string& name) {
  size_t bytes = element_bytes;
  bool too_large = false, empty = false;
  for (const int64_t dimension : shape) {
    if (dimension < 0) fail("{}: has a negative dimension", name);
    if (dimension == 0) {
      empty = true;
    } else {
      too_large |= __builtin_mul_overflow(bytes, static_cast<size_t>(dimension), &bytes);
    }
  }
  // Other code multiplies the dimensions too, so even an empty array must not overflow.
  if (too_large || bytes > (size_t{1} << 62)) {
    fail("{}: the product of its dimensions overflows", name);
  }
  if (empty) return 0;
  if (bytes > limit) {
    fail("{}: truncated or damaged: the header promises {} bytes of elements, the file holds {}",
         name, bytes, limit);
  }
  return bytes;
}

Array read_npy(std::span<const std::byte> bytes, const std::string& name,
               std::shared_ptr<const void> owner) {
  const auto byte = [&](size_t i) { return static_cast<size_t>(bytes[i]); };
  if (bytes.size() < 10 || std::memcmp(bytes.data(), "\x93NUMPY", 6) != 0) {
    fail("{}: not a .npy file (written by numpy.save)", name);
  }
  const size_t major = byte(6);
  if (major < 1 || major > 3) fail("{}: unknown .npy version {}; known are 1 to 3", name, major);
  const size_t start = major == 1 ? 10 : 12;
  if (bytes.size() < start) fail("{}: the .npy header is truncated", name);
  size_t length = byte(8) | byte(9) << 8;
  if (major > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > kMaxHeader) {
    fail("{}: the .npy header has {} bytes; the maximum is {}", name, length, kMaxHeader);
  }
  if (bytes.size() - start < length) fail("{}: the .npy header is truncated", name);
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + start;
  const Header header = HeaderParser({text, length}, name).parse();

  Array array;
  array.name = name;
  array.dtype = element_type(header.descr, name, array.swapped);
  array.shape = header.shape;
  array.bytes = bytes.data() + start + length;
  array.owner = std::move(owner);
  const size_t size =
      array_bytes(array.shape, size_of(array.dtype), bytes.size() - start - length, name);
  if (!header.fortran || array.shape.size() < 2 || size == 0) return array;

  if (size > kMaxTransposed) {
    fail(
        "{}: arrays in Fortran order may have at most 1 GiB; save it again with "
        "numpy.save(path, numpy.ascontiguousarray(array))",
        name);
  }
  auto copy = std::make_shared<std::vector<std::byte>>(size);
  switch (size_of(array.dtype)) {
    case 1:
      transpose<uint8_t>(array.bytes, array.shape, copy->data());
      break;
    case 2:
      transpose<uint16_t>(array.bytes, array.shape, copy->data());
      break;
    case 4:
      transpose<uint32_t>(array.bytes, array.shape, copy->data());
      break;
    default:
      transpose<uint64_t>(array.bytes, array.shape, copy->data());
      break;
  }
  array.bytes = copy->data();
  array.owner = copy;
  return array;
}

}  // namespace adaptdl::data
