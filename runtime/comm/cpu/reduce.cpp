#include "runtime/comm/cpu/reduce.h"

#include <cstdint>
#include <cstring>
#include <type_traits>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

// One body per type and operation, compiled twice on processors that may have AVX2. No
// multiplication feeds an addition here, so fused operations cannot make the results differ.
#if defined(__x86_64__)
#define ADAPTDL_AVX2 __attribute__((target("avx2,f16c")))
#endif
#define ADAPTDL_INLINE inline __attribute__((always_inline))

namespace adaptdl::comm {
namespace {

// The type of an element in memory, and the type of its accumulator.
template <typename T, typename A>
struct Plain {
  using Stored = T;
  using Sum = A;
  static ADAPTDL_INLINE A load(T value) { return static_cast<A>(value); }
  static ADAPTDL_INLINE T store(A value) { return static_cast<T>(value); }
};

struct Half : Plain<_Float16, float> {};

struct BFloat {
  using Stored = uint16_t;
  using Sum = float;
  static ADAPTDL_INLINE float load(uint16_t value) {
    const uint32_t bits = static_cast<uint32_t>(value) << 16;
    float wide;
    std::memcpy(&wide, &bits, sizeof wide);
    return wide;
  }
  static ADAPTDL_INLINE uint16_t store(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    const uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;  // rounding could turn it into infinity
    return static_cast<uint16_t>((nan ? bits | 0x400000u : rounded) >> 16);
  }
};

template <Op op, typename A>
ADAPTDL_INLINE A combine(A a, A b) {
  if constexpr (op == Op::max) {
    return (a > b || a != a) ? a : b;  // NOLINT: a NaN stays one
  } else if constexpr (op == Op::min) {
    return (a < b || a != a) ? a : b;  // NOLINT: a NaN stays one
  } else if constexpr (std::is_integral_v<A>) {
    using U = std::make_unsigned_t<A>;  // wraps around instead of overflowing
    return static_cast<A>(static_cast<U>(a) + static_cast<U>(b));
  } else {
    return a + b;
  }
}

template <Op op, typename A>
ADAPTDL_INLINE A finish(A sum, A divisor) {
  if constexpr (op == Op::average) return sum / divisor;
  return sum;
}

// Two sources: one pass, no accumulator in memory.
template <typename E, Op op, bool copied>
ADAPTDL_INLINE void reduce_pair(typename E::Stored* result, typename E::Stored* copy,
                                const typename E::Stored* a, const typename E::Stored* b,
                                size_t count, typename E::Sum divisor) {
#pragma GCC ivdep  // `result` may be a or b itself, never a shifted part of one
  for (size_t i = 0; i < count; ++i) {
    const auto value = E::store(finish<op>(combine<op>(E::load(a[i]), E::load(b[i])), divisor));
    result[i] = value;
    if constexpr (copied) copy[i] = value;
  }
}

// Any number of sources: block by block through an accumulator that stays in the first-level cache.
template <typename E, Op op>
ADAPTDL_INLINE void reduce_many(typename E::Stored* result, typename E::Stored* copy,
                                const void* const* sources, int number, size_t count,
                                typename E::Sum divisor) {
  using Stored = typename E::Stored;
  constexpr size_t kBlock = 1024;
  typename E::Sum sum[kBlock];
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t length = count - begin < kBlock ? count - begin : kBlock;
    const Stored* first = static_cast<const Stored*>(sources[0]) + begin;
    for (size_t i = 0; i < length; ++i) sum[i] = E::load(first[i]);
    for (int k = 1; k < number; ++k) {
      const Stored* next = static_cast<const Stored*>(sources[k]) + begin;
      for (size_t i = 0; i < length; ++i) sum[i] = combine<op>(sum[i], E::load(next[i]));
    }
    Stored* out = result + begin;
    for (size_t i = 0; i < length; ++i) out[i] = E::store(finish<op>(sum[i], divisor));
    if (copy != nullptr) std::memcpy(copy + begin, out, length * sizeof(Stored));
  }
}

template <typename E, Op op>
ADAPTDL_INLINE void reduce_as(void* result, void* copy, const void* const* sources, int number,
                              size_t count, double divisor) {
  using Stored = typename E::Stored;
  auto* out = static_cast<Stored*>(result);
  auto* second = static_cast<Stored*>(copy);
  const auto by = static_cast<typename E::Sum>(divisor);
  if (number == 2) {
    const auto* a = static_cast<const Stored*>(sources[0]);
    const auto* b = static_cast<const Stored*>(sources[1]);
    if (second != nullptr) {
      reduce_pair<E, op, true>(out, second, a, b, count, by);
    } else {
      reduce_pair<E, op, false>(out, nullptr, a, b, count, by);
    }
  } else {
    reduce_many<E, op>(out, second, sources, number, count, by);
  }
}

using Kernel = void (*)(void*, void*, const void* const*, int, size_t, double);

template <typename E, Op op>
void portable(void* result, void* copy, const void* const* sources, int number, size_t count,
              double divisor) {
  reduce_as<E, op>(result, copy, sources, number, count, divisor);
}

#if defined(__x86_64__)
template <typename E, Op op>
ADAPTDL_AVX2 void with_avx2(void* result, void* copy, const void* const* sources, int number,
                            size_t count, double divisor) {
  reduce_as<E, op>(result, copy, sources, number, count, divisor);
}

bool have_avx2() {
  static const bool have = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    const bool f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
    return f16c && __builtin_cpu_supports("avx2");
  }();
  return have;
}
#endif

template <typename E, Op op>
Kernel kernel() {
#if defined(__x86_64__)
  if (have_avx2()) return with_avx2<E, op>;
#endif
  return portable<E, op>;
}

template <typename E>
Kernel kernel_for(Op op, double divisor) {
  switch (op) {
    case Op::sum:
    case Op::average:
      return divisor != 1 ? kernel<E, Op::average>() : kernel<E, Op::sum>();
    case Op::max:
      return kernel<E, Op::max>();
    case Op::min:
      return kernel<E, Op::min>();
  }
  return nullptr;
}

}  // namespace

size_t size_of(Type type) {
  switch (type) {
    case Type::f32:
    case Type::i32:
      return 4;
    case Type::f64:
    case Type::i64:
      return 8;
    case Type::f16:
    case Type::bf16:
      return 2;
    case Type::u8:
      return 1;
  }
  fail("communicator: unknown element type {}", static_cast<int>(type));
}

void reduce(void* result, void* copy, const void* const* sources, int number, size_t count,
            Type type, Op op, double divisor) {
  Kernel run = nullptr;
  switch (type) {
    case Type::f32:
      run = kernel_for<Plain<float, float>>(op, divisor);
      break;
    case Type::f64:
      run = kernel_for<Plain<double, double>>(op, divisor);
      break;
    case Type::f16:
      run = kernel_for<Half>(op, divisor);
      break;
    case Type::bf16:
      run = kernel_for<BFloat>(op, divisor);
      break;
    case Type::i64:
      run = kernel_for<Plain<int64_t, int64_t>>(op, divisor);
      break;
    case Type::i32:
      run = kernel_for<Plain<int32_t, int32_t>>(op, divisor);
      break;
    case Type::u8:
      run = kernel_for<Plain<uint8_t, uint32_t>>(op, divisor);
      break;
  }
  ADAPTDL_CHECK(run != nullptr && number >= 1);
  run(result, copy, sources, number, count, divisor);
}

}  // namespace adaptdl::comm
