#include "core/policy/sia/sia_values.h"

#include <cmath>
#include <doctest/doctest.h>

namespace adaptdl {
namespace {

using List = std::vector<Configuration>;

List all(const std::vector<KindRoom>& kinds, int least, int most) {
  return sia_configurations(kinds, least, most);
}

TEST_CASE("configurations are powers of two on a node, and whole nodes") {
  CHECK(all({{3, 4, 4}}, 1, 100) == List{{0, 1, 1}, {0, 1, 2}, {0, 1, 4}, {0, 2, 8}, {0, 3, 12}});
  CHECK(all({{2, 6, 6}}, 1, 100) == List{{0, 1, 1}, {0, 1, 2}, {0, 1, 4}, {0, 1, 6}, {0, 2, 12}});
  CHECK(all({{2, 4, 4}, {2, 8, 8}}, 2, 8) ==
        List{{0, 1, 2}, {0, 1, 4}, {0, 2, 8}, {1, 1, 2}, {1, 1, 4}, {1, 1, 8}});
  CHECK(all({{2, 1, 1}}, 1, 2) == List{{0, 1, 1}, {0, 2, 2}});
}

TEST_CASE("nodes that are partly taken hold small configurations only") {
  CHECK(all({{1, 4, 4}}, 1, 100) == List{{0, 1, 1}, {0, 1, 2}, {0, 1, 4}});
  CHECK(all({{0, 4, 2}}, 1, 100) == List{{0, 1, 1}, {0, 1, 2}});
  CHECK(all({{0, 4, 0}}, 1, 100).empty());
  CHECK(all({{0, 0, 0}}, 1, 100).empty());
}

TEST_CASE("bounds that no regular configuration meets still leave one") {
  CHECK(all({{2, 4, 4}}, 3, 3) == List{{0, 1, 3}});
  CHECK(all({{2, 4, 4}}, 5, 7) == List{{0, 2, 5}});
  CHECK(all({{2, 4, 4}, {2, 8, 8}}, 5, 7) == List{{0, 2, 5}, {1, 1, 5}});
  CHECK(all({{2, 4, 4}}, 4, 1) == List{{0, 1, 4}});  // has measured little, but needs four
  CHECK(all({{2, 4, 4}}, 9, 16).empty());
}

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
