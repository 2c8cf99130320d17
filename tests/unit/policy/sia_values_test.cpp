#include "core/policy/sia/sia_values.h"

#include <cmath>
#include <doctest/doctest.h>

namespace adaptdl {
namespace {

using List = std::vector<Configuration>;

TEST_CASE("a change costs young and often changed jobs most") {
  CHECK(restart_factor(10, 0, 30) == 1);  // younger than a restart: it has nothing to lose
  CHECK(restart_factor(30, 0, 30) == doctest::Approx(0.5));
  CHECK(restart_factor(3600, 2, 30) == doctest::Approx(3540.0 / 3630));
  CHECK(restart_factor(60, 2, 30) == 0);
  CHECK(restart_factor(60, 9, 30) == 0);
  CHECK(restart_factor(0, 0, 0) == 1);
}

TEST_CASE("values fall with goodput, and the present configuration is free of charge") {
  std::vector<GoodputTable> goodput(2);  // as many as replicas
  const List list = {{0, 1, 2}, {0, 1, 4}, {1, 2, 8}};
  const auto values = sia_values(list, goodput, Configuration{0, 1, 4}, 0.5, -0.5);
  REQUIRE(values.size() == 3);
  CHECK(values[0].normalised == 1);
  CHECK(values[1].normalised == 2);
  CHECK(values[2].normalised == 4);
  CHECK(values[0].value == doctest::Approx(1 / std::sqrt(0.5)));
  CHECK(values[1].value == doctest::Approx(1 / std::sqrt(2.0)));
  CHECK(values[2].value == doctest::Approx(1 / std::sqrt(2.0)));
  const auto stuck = sia_values(list, goodput, Configuration{0, 1, 4}, 0, -0.5);
  CHECK(std::isinf(stuck[0].value));
  CHECK(std::isfinite(stuck[1].value));
}

}  // namespace
}  // namespace adaptdl
