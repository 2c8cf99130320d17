#include "runtime/gns/kernels.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <doctest/doctest.h>
#include <limits>
#include <random>
#include <vector>

namespace adaptdl::gns {
namespace {

std::vector<float> random_floats(std::mt19937_64& engine, size_t n, float low = -1) {
  std::uniform_real_distribution<float> pick(low, 1);
  std::vector<float> result(n);
  for (float& value : result) value = pick(engine);
  return result;
}

// What a divisor means, without any cleverness.
double divided(float value, const Divisor& divisor, size_t i) {
  switch (divisor.kind()) {
    case Divisor::Kind::array:
      return double(value) / divisor.values()[i];
    case Divisor::Kind::adam:
      return double(value) /
             (std::sqrt(double(divisor.values()[i]) * divisor.scale()) + divisor.eps());
    default:
      return value;
  }
}

Dots simple(const float* a, const float* b, size_t n, const Divisor& divisor) {
  Dots sums;
  for (size_t i = 0; i < n; ++i) {
    const double x = divided(a[i], divisor, i), y = divided(b[i], divisor, i);
    sums.aa += x * x;
    sums.bb += y * y;
    sums.ab += x * y;
  }
  return sums;
}

TEST_CASE("every kernel agrees with the plain sum at all sizes and alignments") {
  std::mt19937_64 engine(21);
  for (size_t n = 0; n < 150; ++n) {
    for (const size_t shift : {0, 1, 3}) {
      const auto a = random_floats(engine, n + shift), b = random_floats(engine, n + shift);
      const auto second = random_floats(engine, n + shift, 0.01f);
      const float *x = a.data() + shift, *y = b.data() + shift;
      for (const Divisor& divisor : {Divisor(), Divisor::array(second.data() + shift),
                                     Divisor::adam(second.data() + shift, 0.999, 7, 1e-8)}) {
        const Dots want = simple(x, y, n, divisor);
        const Dots got = dots(x, y, n, divisor);
        const double least = 1e-5 * std::sqrt(want.aa * want.bb);
        CHECK(got.aa == doctest::Approx(want.aa).epsilon(1e-5));
        CHECK(got.bb == doctest::Approx(want.bb).epsilon(1e-5));
        CHECK(std::abs(got.ab - want.ab) <= least);
        CHECK(sum_squares(x, n, divisor) == doctest::Approx(want.aa).epsilon(1e-5));

        std::vector<float> target(n + 2, 5.0f);
        CHECK(copy_and_norm(target.data() + 1, x, n, divisor) ==
              doctest::Approx(want.aa).epsilon(1e-5));
        CHECK(std::equal(x, x + n, target.data() + 1));
        CHECK(accumulate_and_norm(target.data() + 1, y, n, divisor) ==
              doctest::Approx(want.bb).epsilon(1e-5));
        for (size_t i = 0; i < n; ++i) CHECK(target[i + 1] == x[i] + y[i]);
        CHECK(target.front() == 5.0f);  // nothing beyond the ends
        CHECK(target.back() == 5.0f);
      }
    }
  }
}

TEST_CASE("sums are in float64: a million small squares do not vanish beside a large one") {
  std::vector<float> values(1 << 20, 1e-3f);
  values[0] = 1e4f;
  const double small = double(1e-3f) * double(1e-3f) * ((1 << 20) - 1);
  CHECK(sum_squares(values.data(), values.size()) - 1e8 == doctest::Approx(small).epsilon(1e-3));
}

TEST_CASE("values that are not finite are found, and show in the sum, wherever they are") {
  std::mt19937_64 engine(22);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), HUGE_VALF, -HUGE_VALF}) {
    for (size_t at = 0; at < 70; ++at) {
      auto values = random_floats(engine, 70);
      values[at] = bad;
      CHECK(!std::isfinite(sum_squares(values.data(), values.size())));
      CHECK(!all_finite(values.data(), values.size()));
      CHECK(all_finite(values.data(), at));
    }
  }
}

TEST_CASE("Adam's preconditioner is ones for the first five steps") {
  const float second = 4;
  const float gradient = 6;
  for (int64_t steps = 0; steps < 5; ++steps) {
    CHECK(sum_squares(&gradient, 1, Divisor::adam(&second, 0.999, steps, 1e-8)) == 36);
  }
  const double divisor = std::sqrt(4 / (1 - std::pow(0.9, 5))) + 0.5;
  CHECK(sum_squares(&gradient, 1, Divisor::adam(&second, 0.9, 5, 0.5)) ==
        doctest::Approx(36 / (divisor * divisor)).epsilon(1e-6));
}

template <typename F>
double fastest_us(F f) {
  double best = 1e300;
  for (int i = 0; i < 12; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    f();
    best = std::min(
        best, std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begun)
                  .count());
  }
  return best;
}

TEST_CASE("the measured copy costs about as much as a copy") {
  std::mt19937_64 engine(23);
  const auto source = random_floats(engine, size_t(4) << 20);
  std::vector<float> target(source.size());
  const size_t bytes = source.size() * sizeof(float);
  double sum = 0;
  const double copy = fastest_us([&] { std::memcpy(target.data(), source.data(), bytes); });
  const double measured =
      fastest_us([&] { sum += copy_and_norm(target.data(), source.data(), source.size()); });
  const double added =
      fastest_us([&] { sum += accumulate_and_norm(target.data(), source.data(), source.size()); });
  const double squares = fastest_us([&] { sum += sum_squares(source.data(), source.size()); });
  MESSAGE("16 MiB: memcpy " << copy << " us; of that, copy_and_norm " << measured / copy
                            << ", accumulate_and_norm " << added / copy << ", sum_squares "
                            << squares / copy);
  CHECK(sum > 0);
}

}  // namespace
}  // namespace adaptdl::gns
