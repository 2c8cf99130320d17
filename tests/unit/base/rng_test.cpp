#include "core/base/rng.h"

#include <doctest/doctest.h>

using namespace adaptdl;

TEST_CASE("random numbers are the published ones") {
  // The first of seed 1234567 of the reference implementation.
  Rng rng(1234567);
  CHECK(rng.bits() == 6457827717110365317u);
  CHECK(rng.bits() == 3203168211198807973u);
  CHECK(rng.bits() == 9817491932198370423u);
}

TEST_CASE("uniform numbers, integers and chances keep to their ranges and means") {
  Rng rng(1);
  double sum = 0;
  int counts[5] = {}, hits = 0;
  for (int i = 0; i < 10'000; ++i) {
    const double value = rng.uniform();
    REQUIRE(value >= 0);
    REQUIRE(value < 1);
    sum += value;
    ++counts[rng.below(5)];
    hits += rng.chance(0.3);
    REQUIRE(rng.chance(1));
    REQUIRE_FALSE(rng.chance(0));
  }
  CHECK(sum / 10'000 == doctest::Approx(0.5).epsilon(0.02));
  for (const int count : counts) CHECK(count == doctest::Approx(2000).epsilon(0.1));
  CHECK(hits == doctest::Approx(3000).epsilon(0.05));
}
