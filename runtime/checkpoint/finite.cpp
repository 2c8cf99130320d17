#include "runtime/checkpoint/finite.h"

#include <cstdint>
#include <cstring>

namespace adaptdl {
namespace {

// A number is not finite if all bits of its exponent are set. Has no branch, so that the compiler
// uses vectors.
template <typename Word>
bool none_full(std::span<const std::byte> bytes, Word exponent) {
  const size_t count = bytes.size() / sizeof(Word);
  Word found = 0;
  for (size_t i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, bytes.data() + i * sizeof(Word), sizeof(Word));
    found |= static_cast<Word>((word & exponent) == exponent);
  }
  return found == 0;
}

}  // namespace

bool all_finite(std::string_view dtype, std::span<const std::byte> bytes) {
  if (dtype == "float32" || dtype == "complex64") return none_full<uint32_t>(bytes, 0x7f800000u);
  if (dtype == "float64" || dtype == "complex128") {
    return none_full<uint64_t>(bytes, 0x7ff0000000000000u);
  }
  if (dtype == "float16") return none_full<uint16_t>(bytes, 0x7c00u);
  if (dtype == "bfloat16") return none_full<uint16_t>(bytes, 0x7f80u);
  return true;
}

}  // namespace adaptdl
