#include "runtime/checkpoint/finite.h"

#include <cstdint>
#include <doctest/doctest.h>
#include <limits>
#include <string>
#include <vector>

using namespace adaptdl;

namespace {

template <typename T>
bool finite(const std::string& dtype, const std::vector<T>& values) {
  return all_finite(dtype, std::as_bytes(std::span(values)));
}

}  // namespace

TEST_CASE("a number that is not finite is found, wherever it is") {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const size_t count : {1u, 7u, 64u, 1001u}) {
    for (const size_t at : {size_t{0}, count / 2, count - 1}) {
      for (const double bad : {kInf, -kInf, kNan, -kNan}) {
        std::vector<float> narrow(count, std::numeric_limits<float>::max());
        std::vector<double> wide(count, std::numeric_limits<double>::denorm_min());
        CHECK(finite("float32", narrow));
        CHECK(finite("float64", wide));
        narrow[at] = static_cast<float>(bad);
        wide[at] = bad;
        CHECK_FALSE(finite("float32", narrow));
        CHECK_FALSE(finite("float64", wide));
      }
      for (const auto& [dtype, largest, infinite] :
           {std::tuple{"float16", uint16_t{0xfbff}, uint16_t{0xfc00}},
            std::tuple{"bfloat16", uint16_t{0x7f7f}, uint16_t{0x7fc0}}}) {
        std::vector<uint16_t> half(count, largest);
        CHECK(finite(dtype, half));
        half[at] = infinite;
        CHECK_FALSE(finite(dtype, half));
      }
    }
  }
}

TEST_CASE("either part of a complex number counts, and integers are always finite") {
  CHECK(finite<float>("complex64", {1, 2, 3, 4}));
  CHECK_FALSE(finite<float>("complex64", {1, 2, 3, std::numeric_limits<float>::infinity()}));
  CHECK_FALSE(finite<double>("complex128", {std::numeric_limits<double>::quiet_NaN(), 0}));
  CHECK(finite<int64_t>("int64", {-1, 0x7ff0000000000000}));
  CHECK(finite<uint8_t>("bool", {255}));
  CHECK(all_finite("float32", {}));
}
