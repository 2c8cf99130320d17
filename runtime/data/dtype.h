#pragma once

// Element types of the tensors in a data set, independent of Torch.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace adaptdl::data {

// In memory always little-endian, like the supported machines; bool is one byte, 0 or 1.
// float16 is IEEE binary16, bfloat16 the upper half of binary32. uint16 and uint32 exist in files
// only: a column of them is widened to int32 or int64 unless its `dtype` says otherwise.
enum class DType : uint8_t {
  float32,
  float64,
  float16,
  bfloat16,
  int64,
  int32,
  int16,
  int8,
  uint8,
  boolean,  // "bool"
  uint16,
  uint32,
};

// Bytes of one element.
size_t size_of(DType type);

// "float32", ..., "bool"; as in adaptdl.yaml and in Torch.
std::string_view name_of(DType type);

// Looks a type up by name; throws Error that names `what` and lists the allowed types (all but
// uint16 and uint32).
DType parse_dtype(std::string_view name, std::string_view what);

bool is_floating(DType type);

// The type that a column of files of this type has: int32 for uint16, int64 for uint32.
DType widened(DType type);

}  // namespace adaptdl::data
