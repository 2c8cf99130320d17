#include "runtime/data/convert.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/base/error.h"

namespace adaptdl::data {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr int64_t kChunk = 512;  // elements converted at a time, on the stack

// Types that need more than a static_cast for conversion to a number.
struct Half {
  uint16_t bits;
};
struct Brain {
  uint16_t bits;
};
struct Bool {
  uint8_t bits;
};

template <size_t Bytes>
struct Bits;
template <>
struct Bits<1> {
  using Type = uint8_t;
  static Type swap(Type v) { return v; }
};
template <>
struct Bits<2> {
  using Type = uint16_t;
  static Type swap(Type v) { return __builtin_bswap16(v); }
};
template <>
struct Bits<4> {
  using Type = uint32_t;
  static Type swap(Type v) { return __builtin_bswap32(v); }
};
template <>
struct Bits<8> {
  using Type = uint64_t;
  static Type swap(Type v) { return __builtin_bswap64(v); }
};

template <typename T, bool Swapped>
void load(const std::byte* in, int64_t count, double* out) {
  using B = Bits<sizeof(T)>;
  for (int64_t i = 0; i < count; ++i) {
    typename B::Type bits;
    std::memcpy(&bits, in + static_cast<size_t>(i) * sizeof(T), sizeof(T));
    if constexpr (Swapped) bits = B::swap(bits);
    const T value = std::bit_cast<T>(bits);
    if constexpr (std::is_same_v<T, Half>) {
      out[i] = from_float16(value.bits);
    } else if constexpr (std::is_same_v<T, Brain>) {
      out[i] = from_bfloat16(value.bits);
    } else if constexpr (std::is_same_v<T, Bool>) {
      out[i] = value.bits != 0 ? 1.0 : 0.0;
    } else {
      out[i] = static_cast<double>(value);
    }
  }
}

template <typename T>
T saturate(double value) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(value)) return 0;
  // The largest int64 has no exact float64: this compares with 2^63, which does not fit either.
  if (value >= static_cast<double>(Limits::max())) return Limits::max();
  if (value <= static_cast<double>(Limits::min())) return Limits::min();
  return static_cast<T>(value);
}

template <typename T>
void store(const double* in, int64_t count, std::byte* out) {
  T* to = reinterpret_cast<T*>(out);
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<T, Half>) {
      to[i] = {to_float16(static_cast<float>(in[i]))};
    } else if constexpr (std::is_same_v<T, Brain>) {
      to[i] = {to_bfloat16(static_cast<float>(in[i]))};
    } else if constexpr (std::is_same_v<T, Bool>) {
      to[i] = {static_cast<uint8_t>(in[i] != 0.0 ? 1 : 0)};
    } else if constexpr (std::is_integral_v<T>) {
      to[i] = saturate<T>(in[i]);
    } else {
      to[i] = static_cast<T>(in[i]);
    }
  }
}

// Calls use.template operator()<T>() with the C++ type of `type`.
template <typename Use>
auto with_type(DType type, Use use) {
  switch (type) {
    case DType::float32:
      return use.template operator()<float>();
    case DType::float64:
      return use.template operator()<double>();
    case DType::float16:
      return use.template operator()<Half>();
    case DType::bfloat16:
      return use.template operator()<Brain>();
    case DType::int64:
      return use.template operator()<int64_t>();
    case DType::int32:
      return use.template operator()<int32_t>();
    case DType::int16:
      return use.template operator()<int16_t>();
    case DType::int8:
      return use.template operator()<int8_t>();
    case DType::uint8:
      return use.template operator()<uint8_t>();
    case DType::boolean:
      return use.template operator()<Bool>();
    case DType::uint16:
      return use.template operator()<uint16_t>();
    case DType::uint32:
      return use.template operator()<uint32_t>();
  }
  check_failed("a DType", __FILE__, __LINE__);
}

template <size_t Bytes>
void copy_swapped(const std::byte* in, int64_t count, std::byte* out) {
  using B = Bits<Bytes>;
  for (int64_t i = 0; i < count; ++i) {
    typename B::Type bits;
    std::memcpy(&bits, in + static_cast<size_t>(i) * Bytes, Bytes);
    bits = B::swap(bits);
    std::memcpy(out + static_cast<size_t>(i) * Bytes, &bits, Bytes);
  }
}

}  // namespace

float from_bfloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float from_float16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1f, mantissa = bits & 0x3ff;
  if (exponent == 0) {  // zero and the subnormals: mantissa * 2^-24, exact in binary32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000 | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t to_float16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // 65520 and more round to infinity
  if (magnitude < 0x38800000) {                       // below 2^-14: a multiple of 2^-24
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p24f;
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(scaled)));
  }
  const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
  return static_cast<uint16_t>(sign | ((rounded - (112u << 23)) >> 13));
}

void check_scaling(double scale, double offset, DType to, const std::string& name) {
  if (!std::isfinite(scale) || !std::isfinite(offset)) {
    fail("{}: scale and offset must be finite", name);
  }
  if (is_floating(to) || (scale == std::trunc(scale) && offset == std::trunc(offset))) return;
  const bool is_scale = scale != std::trunc(scale);
  fail("{}: {} {} needs numbers with a fraction, which {} does not hold; set dtype: float32", name,
       is_scale ? "scale" : "offset", is_scale ? scale : offset, name_of(to));
}

Converter::Converter(DType from, bool swapped, DType to, double scale, double offset)
    : from_(from),
      to_(to),
      swapped_(swapped && size_of(from) > 1),
      scaled_(scale != 1.0 || offset != 0.0),
      scale_(scale),
      offset_(offset) {
  copies_ = from == to && !scaled_ && from != DType::boolean;
  load_ = with_type(
      from, [this]<typename T>() -> Load { return swapped_ ? &load<T, true> : &load<T, false>; });
  store_ = with_type(to, []<typename T>() -> Store { return &store<T>; });
}

void Converter::operator()(const std::byte* in, int64_t count, std::byte* out) const {
  if (count == 0) return;
  if (copies_) {
    if (!swapped_) {
      std::memcpy(out, in, static_cast<size_t>(count) * size_of(from_));
      return;
    }
    switch (size_of(from_)) {
      case 2:
        return copy_swapped<2>(in, count, out);
      case 4:
        return copy_swapped<4>(in, count, out);
      default:
        return copy_swapped<8>(in, count, out);
    }
  }
  if (from_ == DType::uint8 && to_ == DType::float32) {  // images: a fast loop that vectorizes
    const auto* bytes = reinterpret_cast<const uint8_t*>(in);
    auto* floats = reinterpret_cast<float*>(out);
    const auto scale = static_cast<float>(scale_), offset = static_cast<float>(offset_);
    for (int64_t i = 0; i < count; ++i) floats[i] = static_cast<float>(bytes[i]) * scale + offset;
    return;
  }
  double values[kChunk];
  while (count > 0) {
    const int64_t chunk = std::min(count, kChunk);
    load_(in, chunk, values);
    if (scaled_) {
      if (!is_floating(to_)) {
        for (int64_t i = 0; i < chunk; ++i) values[i] = std::trunc(values[i]);
      }
      for (int64_t i = 0; i < chunk; ++i) values[i] = values[i] * scale_ + offset_;
    }
    store_(values, chunk, out);
    in += static_cast<size_t>(chunk) * size_of(from_);
    out += static_cast<size_t>(chunk) * size_of(to_);
    count -= chunk;
  }
}

}  // namespace adaptdl::data
