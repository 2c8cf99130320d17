#include "runtime/data/dtype.h"

#include <array>
#include <string>

#include "core/base/error.h"

namespace adaptdl::data {
namespace {

struct Row {
  std::string_view name;
  size_t bytes;
  bool floating;
};

// In the order of the enumeration; columns cannot have the last two.
constexpr std::array<Row, 12> kTypes = {{{"float32", 4, true},
                                         {"float64", 8, true},
                                         {"float16", 2, true},
                                         {"bfloat16", 2, true},
                                         {"int64", 8, false},
                                         {"int32", 4, false},
                                         {"int16", 2, false},
                                         {"int8", 1, false},
                                         {"uint8", 1, false},
                                         {"bool", 1, false},
                                         {"uint16", 2, false},
                                         {"uint32", 4, false}}};
constexpr size_t kColumnTypes = 10;

}  // namespace

size_t size_of(DType type) {
  return kTypes.at(static_cast<size_t>(type)).bytes;
}

std::string_view name_of(DType type) {
  return kTypes.at(static_cast<size_t>(type)).name;
}

bool is_floating(DType type) {
  return kTypes.at(static_cast<size_t>(type)).floating;
}

DType parse_dtype(std::string_view name, std::string_view what) {
  std::string allowed;
  for (size_t i = 0; i < kColumnTypes; ++i) {
    if (kTypes[i].name == name) return static_cast<DType>(i);
    allowed += (i > 0 ? ", " : "") + std::string(kTypes[i].name);
  }
  fail("{}: unknown dtype \"{}\"; allowed are {}", what, name, allowed);
}

DType widened(DType type) {
  if (type == DType::uint16) return DType::int32;
  if (type == DType::uint32) return DType::int64;
  return type;
}

}  // namespace adaptdl::data
