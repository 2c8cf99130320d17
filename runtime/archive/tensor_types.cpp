#include "runtime/archive/tensor_types.h"

#include "core/base/error.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

struct StoredType {
  at::ScalarType type;
  std::string_view name;
};
constexpr StoredType kStoredTypes[] = {
    {at::kFloat, "float32"},
    {at::kDouble, "float64"},
    {at::kHalf, "float16"},
    {at::kBFloat16, "bfloat16"},
    {at::kComplexFloat, "complex64"},
    {at::kComplexDouble, "complex128"},
    {at::kLong, "int64"},
    {at::kInt, "int32"},
    {at::kShort, "int16"},
    {at::kChar, "int8"},
    {at::kByte, "uint8"},
    {at::kUInt16, "uint16"},
    {at::kUInt32, "uint32"},
    {at::kUInt64, "uint64"},
    {at::kBool, "bool"},
};

}  // namespace

at::ScalarType scalar_type(data::DType type) {
  switch (type) {
    case data::DType::float32:
      return at::kFloat;
    case data::DType::float64:
      return at::kDouble;
    case data::DType::float16:
      return at::kHalf;
    case data::DType::bfloat16:
      return at::kBFloat16;
    case data::DType::int64:
      return at::kLong;
    case data::DType::int32:
      return at::kInt;
    case data::DType::int16:
      return at::kShort;
    case data::DType::int8:
      return at::kChar;
    case data::DType::uint8:
      return at::kByte;
    case data::DType::boolean:
      return at::kBool;
    default:
      fail("a column of type {} cannot be a tensor; set its dtype", data::name_of(type));
  }
}

data::DType data_type(at::ScalarType type, const std::string& path) {
  for (const auto candidate :
       {data::DType::float32, data::DType::float64, data::DType::float16, data::DType::bfloat16,
        data::DType::int64, data::DType::int32, data::DType::int16, data::DType::int8,
        data::DType::uint8, data::DType::boolean}) {
    if (scalar_type(candidate) == type) return candidate;
  }
  fail("{}: tensors of type {} are not supported as data", path, at::toString(type));
}

std::string_view dtype_name(at::ScalarType type) {
  for (const StoredType& stored : kStoredTypes) {
    if (stored.type == type) return stored.name;
  }
  return "";
}

std::optional<at::ScalarType> type_named(std::string_view dtype) {
  for (const StoredType& stored : kStoredTypes) {
    if (stored.name == dtype) return stored.type;
  }
  return std::nullopt;
}

}  // namespace adaptdl
