#include "runtime/gns/kernels.h"

#include <cmath>
#include <cstring>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace adaptdl::gns {
namespace {

// Eight fp32 lanes are summed as two vectors of four float64, the width of AVX registers; the
// compiler splits them further for narrower registers.
using Floats = float __attribute__((vector_size(32)));
using Half = float __attribute__((vector_size(16)));
using Doubles = double __attribute__((vector_size(32)));
constexpr size_t kLanes = 8;

// Bodies are compiled once per instruction set, inside a function with its target attribute.
#define ADAPTDL_KERNEL [[gnu::always_inline]] inline

ADAPTDL_KERNEL void load(Floats& v, const float* from) {
  std::memcpy(&v, from, sizeof v);
}
ADAPTDL_KERNEL void store(float* to, const Floats& v) {
  std::memcpy(to, &v, sizeof v);
}

ADAPTDL_KERNEL float square_root(float x) {
  return std::sqrt(x);
}

ADAPTDL_KERNEL void square_roots(Floats& v) {
#if defined(__SSE__)
  Half low = __builtin_shufflevector(v, v, 0, 1, 2, 3);
  Half high = __builtin_shufflevector(v, v, 4, 5, 6, 7);
  low = _mm_sqrt_ps(low);
  high = _mm_sqrt_ps(high);
  v = __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
#else
  for (size_t lane = 0; lane < kLanes; ++lane) v[lane] = square_root(v[lane]);
#endif
}

template <Divisor::Kind kind>
ADAPTDL_KERNEL void divide(Floats& v, const Divisor& divisor, const float* values) {
  if constexpr (kind == Divisor::Kind::ones) return;
  Floats d;
  load(d, values);
  if constexpr (kind == Divisor::Kind::adam) {
    d *= divisor.scale();
    square_roots(d);
    d += divisor.eps();
  }
  v /= d;
}

template <Divisor::Kind kind>
ADAPTDL_KERNEL float divide(float v, const Divisor& divisor, size_t i) {
  if constexpr (kind == Divisor::Kind::ones) return v;
  if constexpr (kind == Divisor::Kind::array) return v / divisor.values()[i];
  return v / (square_root(divisor.values()[i] * divisor.scale()) + divisor.eps());
}

struct Sum {
  Doubles low{}, high{};
};

// sum += x * y, lane by lane.
ADAPTDL_KERNEL void add_products(Sum& sum, const Floats& x, const Floats& y) {
  const Half x_low = __builtin_shufflevector(x, x, 0, 1, 2, 3);
  const Half x_high = __builtin_shufflevector(x, x, 4, 5, 6, 7);
  const Half y_low = __builtin_shufflevector(y, y, 0, 1, 2, 3);
  const Half y_high = __builtin_shufflevector(y, y, 4, 5, 6, 7);
  sum.low += __builtin_convertvector(x_low, Doubles) * __builtin_convertvector(y_low, Doubles);
  sum.high += __builtin_convertvector(x_high, Doubles) * __builtin_convertvector(y_high, Doubles);
}

ADAPTDL_KERNEL double total(const Sum& sum) {
  const Doubles both = sum.low + sum.high;
  return (both[0] + both[1]) + (both[2] + both[3]);
}

enum class Move { none, copy, add };

// Processes one vector: moves it, divides it, adds its squares.
template <Move move, Divisor::Kind kind>
ADAPTDL_KERNEL void one_vector(Sum& sum, float* target, const float* source, size_t at,
                               const Divisor& divisor) {
  Floats v;
  load(v, source + at);
  if constexpr (move == Move::copy) store(target + at, v);
  if constexpr (move == Move::add) {
    Floats t;
    load(t, target + at);
    store(target + at, t + v);
  }
  divide<kind>(v, divisor, divisor.values() + at);
  add_products(sum, v, v);
}

// Independent sums hide the latency of a fused multiply-add.
template <Move move, Divisor::Kind kind>
ADAPTDL_KERNEL double one_array(float* target, const float* source, size_t n,
                                const Divisor& divisor) {
  Sum a, b, c, d;
  size_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    one_vector<move, kind>(a, target, source, i, divisor);
    one_vector<move, kind>(b, target, source, i + kLanes, divisor);
    one_vector<move, kind>(c, target, source, i + 2 * kLanes, divisor);
    one_vector<move, kind>(d, target, source, i + 3 * kLanes, divisor);
  }
  double rest = 0;
  for (; i < n; ++i) {
    const float v = source[i];
    if constexpr (move == Move::copy) target[i] = v;
    if constexpr (move == Move::add) target[i] += v;
    const double wide = divide<kind>(v, divisor, i);
    rest += wide * wide;
  }
  return (total(a) + total(b)) + (total(c) + total(d)) + rest;
}

template <Divisor::Kind kind>
ADAPTDL_KERNEL Dots two_arrays(const float* a, const float* b, size_t n, const Divisor& divisor) {
  Sum aa, bb, ab;
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Floats x, y;
    load(x, a + i);
    load(y, b + i);
    divide<kind>(x, divisor, divisor.values() + i);
    divide<kind>(y, divisor, divisor.values() + i);
    add_products(aa, x, x);
    add_products(bb, y, y);
    add_products(ab, x, y);
  }
  Dots result{total(aa), total(bb), total(ab)};
  for (; i < n; ++i) {
    const double x = divide<kind>(a[i], divisor, i), y = divide<kind>(b[i], divisor, i);
    result.aa += x * x;
    result.bb += y * y;
    result.ab += x * y;
  }
  return result;
}

using Bits = int32_t __attribute__((vector_size(32)));
constexpr int32_t kExponent = 0x7f800000;  // all of its bits are set: infinite, or not a number

ADAPTDL_KERNEL void look_for_not_finite(Bits& found, const float* values) {
  Bits v;
  std::memcpy(&v, values, sizeof v);
  found |= (v & kExponent) == kExponent;
}

ADAPTDL_KERNEL bool finite_array(const float* values, size_t n) {
  Bits a{}, b{};
  size_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    look_for_not_finite(a, values + i);
    look_for_not_finite(b, values + i + kLanes);
  }
  a |= b;
  bool finite = true;
  for (size_t lane = 0; lane < kLanes; ++lane) finite &= a[lane] == 0;
  for (; i < n; ++i) finite &= std::isfinite(values[i]);
  return finite;
}

template <Move move>
ADAPTDL_KERNEL double any_one(float* target, const float* source, size_t n, const Divisor& d) {
  switch (d.kind()) {
    case Divisor::Kind::array:
      return one_array<move, Divisor::Kind::array>(target, source, n, d);
    case Divisor::Kind::adam:
      return one_array<move, Divisor::Kind::adam>(target, source, n, d);
    default:
      return one_array<move, Divisor::Kind::ones>(target, source, n, d);
  }
}

ADAPTDL_KERNEL Dots any_two(const float* a, const float* b, size_t n, const Divisor& d) {
  switch (d.kind()) {
    case Divisor::Kind::array:
      return two_arrays<Divisor::Kind::array>(a, b, n, d);
    case Divisor::Kind::adam:
      return two_arrays<Divisor::Kind::adam>(a, b, n, d);
    default:
      return two_arrays<Divisor::Kind::ones>(a, b, n, d);
  }
}

using Finite = bool (*)(const float*, size_t);
using One = double (*)(float*, const float*, size_t, const Divisor&);
using Two = Dots (*)(const float*, const float*, size_t, const Divisor&);

// Selected by ordinary pointers instead of the loader (ifunc), which runs before a sanitizer
// starts.
// NOLINTBEGIN(bugprone-macro-parentheses): attributes are no expression
#define ADAPTDL_VERSIONS(suffix, attributes)                                                  \
  attributes double norm_##suffix(float* t, const float* s, size_t n, const Divisor& d) {     \
    return any_one<Move::none>(t, s, n, d);                                                   \
  }                                                                                           \
  attributes double copy_##suffix(float* t, const float* s, size_t n, const Divisor& d) {     \
    return any_one<Move::copy>(t, s, n, d);                                                   \
  }                                                                                           \
  attributes double add_##suffix(float* t, const float* s, size_t n, const Divisor& d) {      \
    return any_one<Move::add>(t, s, n, d);                                                    \
  }                                                                                           \
  attributes bool finite_##suffix(const float* values, size_t n) {                            \
    return finite_array(values, n);                                                           \
  }                                                                                           \
  attributes Dots dots_##suffix(const float* a, const float* b, size_t n, const Divisor& d) { \
    return any_two(a, b, n, d);                                                               \
  }

// NOLINTEND(bugprone-macro-parentheses)
ADAPTDL_VERSIONS(plain, )

struct Table {
  Finite finite;
  One norm, copy, add;
  Two dots;
};

#if defined(__x86_64__)
ADAPTDL_VERSIONS(avx2, [[gnu::target("avx2,fma")]])

const Table& table() {
  static const Table chosen =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
          ? Table{finite_avx2, norm_avx2, copy_avx2, add_avx2, dots_avx2}
          : Table{finite_plain, norm_plain, copy_plain, add_plain, dots_plain};
  return chosen;
}
#else
const Table& table() {
  static constexpr Table chosen{finite_plain, norm_plain, copy_plain, add_plain, dots_plain};
  return chosen;
}
#endif

}  // namespace

Divisor Divisor::adam(const float* exp_avg_sq, double beta2, int64_t steps, double eps) {
  constexpr int64_t kFirstSteps = 5;
  Divisor divisor;
  if (steps < kFirstSteps) return divisor;
  divisor.kind_ = Kind::adam;
  divisor.values_ = exp_avg_sq;
  divisor.scale_ = static_cast<float>(1 / (1 - std::pow(beta2, static_cast<double>(steps))));
  divisor.eps_ = static_cast<float>(eps);
  return divisor;
}

Divisor Divisor::array(const float* values) {
  Divisor divisor;
  divisor.kind_ = Kind::array;
  divisor.values_ = values;
  return divisor;
}

bool all_finite(const float* values, size_t n) {
  return table().finite(values, n);
}

double sum_squares(const float* values, size_t n, Divisor divisor) {
  return table().norm(nullptr, values, n, divisor);
}

Dots dots(const float* a, const float* b, size_t n, Divisor divisor) {
  return table().dots(a, b, n, divisor);
}

double accumulate_and_norm(float* target, const float* source, size_t n, Divisor divisor) {
  return table().add(target, source, n, divisor);
}

double copy_and_norm(float* target, const float* source, size_t n, Divisor divisor) {
  return table().copy(target, source, n, divisor);
}

}  // namespace adaptdl::gns
