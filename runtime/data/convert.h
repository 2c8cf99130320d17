#pragma once

// Element conversion between stored arrays and batches.

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/data/dtype.h"

namespace adaptdl::data {

// IEEE binary16 and bfloat16 as bits; conversions to them round to nearest even.
float from_float16(uint16_t bits);
float from_bfloat16(uint16_t bits);
uint16_t to_float16(float value);
uint16_t to_bfloat16(float value);

// Throws Error with `name` if such numbers cannot be converted: the scale or the offset is not
// finite, or what it makes of integers would lose its fraction in `to`.
void check_scaling(double scale, double offset, DType to, const std::string& name);

// Converts elements of one type to another: value -> to(value) * scale + offset, computed in
// float64 (so int64 beyond 2^53 is exact only where it stays int64 and unscaled). Integers are
// truncated towards zero and saturate; a NaN becomes 0; bool is "not zero". Thread-safe.
class Converter {
 public:
  // `swapped`: the input is big-endian.
  Converter(DType from, bool swapped, DType to, double scale = 1.0, double offset = 0.0);

  // `in` needs no alignment; `out` must be aligned to its type. They must not overlap.
  void operator()(const std::byte* in, int64_t count, std::byte* out) const;

 private:
  using Load = void (*)(const std::byte*, int64_t, double*);
  using Store = void (*)(const double*, int64_t, std::byte*);

  DType from_, to_;
  bool swapped_, copies_, scaled_;
  double scale_, offset_;
  Load load_;
  Store store_;
};

}  // namespace adaptdl::data
