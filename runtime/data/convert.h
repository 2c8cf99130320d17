#pragma once

// Element conversion between stored arrays and batches.

#include <cstddef>
#include <cstdint>

#include "runtime/data/dtype.h"

namespace adaptdl::data {

// IEEE binary16 and bfloat16 as bits; conversions to them round to nearest even.
float from_float16(uint16_t bits);
float from_bfloat16(uint16_t bits);
uint16_t to_float16(float value);
uint16_t to_bfloat16(float value);

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
