#include "core/base/error.h"
#include "runtime/data/formats/readers.h"

namespace adaptdl::data {

Array read_idx(std::span<const std::byte> bytes, const std::string& name,
               std::shared_ptr<const void> owner) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(bytes[i]); };
  if (bytes.size() >= 2 && byte(0) == 0x1f && byte(1) == 0x8b) {
    fail("{}: is compressed and cannot be mapped; run gunzip on it first", name);
  }
  // Format: two zero bytes, the type, the number of dimensions, then each as 32-bit big-endian.
  if (bytes.size() < 4 || byte(0) != 0 || byte(1) != 0) {
    fail("{}: not an IDX file (it does not start with two zero bytes)", name);
  }
  Array array;
  array.name = name;
  switch (byte(2)) {
    case 0x08:
      array.dtype = DType::uint8;
      break;
    case 0x09:
      array.dtype = DType::int8;
      break;
    case 0x0b:
      array.dtype = DType::int16;
      break;
    case 0x0c:
      array.dtype = DType::int32;
      break;
    case 0x0d:
      array.dtype = DType::float32;
      break;
    case 0x0e:
      array.dtype = DType::float64;
      break;
    default:
      fail("{}: not an IDX file (unknown element type {:#04x})", name, byte(2));
  }
  array.swapped = size_of(array.dtype) > 1;
  const size_t rank = byte(3);
  if (rank < 1 || rank > 8) fail("{}: {} dimensions; an IDX file has 1 to 8", name, rank);
  const size_t start = 4 + 4 * rank;
  if (bytes.size() < start) fail("{}: the IDX header is truncated", name);
  for (size_t i = 4; i < start; i += 4) {
    array.shape.push_back(byte(i) << 24 | byte(i + 1) << 16 | byte(i + 2) << 8 | byte(i + 3));
  }
  const size_t there = bytes.size() - start;
  const size_t size = array_bytes(array.shape, size_of(array.dtype), there, name);
  if (size != there) {
    fail("{}: {} bytes follow the last element; the header is damaged, or this is not an IDX file",
         name, there - size);
  }
  array.bytes = bytes.data() + start;
  array.owner = std::move(owner);
  return array;
}

}  // namespace adaptdl::data
