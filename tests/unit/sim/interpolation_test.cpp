#include "core/sim/profiles/interpolation.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>

using namespace adaptdl;

namespace {

std::array<double, 2> linear(const Point3& x) {
  return {1 + 2 * x[0] - 0.5 * x[1] + 0.25 * x[2], x[2] - x[0]};
}

// 0..n-1 on each axis, the third one in steps of 10: as degenerate as measurements are.
std::vector<Interpolation::Sample> grid(int n) {
  std::vector<Interpolation::Sample> samples;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      for (int k = 0; k < n; ++k) {
        const Point3 at{double(i), double(j), 10.0 * k};
        samples.push_back({at, linear(at)});
      }
    }
  }
  return samples;
}

Interpolation interpolation(std::vector<Interpolation::Sample> samples) {
  auto result = Interpolation::of(std::move(samples));
  REQUIRE(result.has_value());
  return std::move(*result);
}

void check_linear(const Interpolation& on, const Point3& x, const Point3& same_as) {
  CAPTURE(x[0]);
  CAPTURE(x[1]);
  CAPTURE(x[2]);
  const auto got = on.at(x), want = linear(same_as);
  for (size_t v = 0; v < 2; ++v) CHECK(got[v] == doctest::Approx(want[v]).epsilon(1e-9));
}

}  // namespace

TEST_CASE("a linear function is reproduced everywhere inside") {
  const Interpolation on = interpolation(grid(5));
  for (double a = 0; a <= 4; a += 0.3125) {
    for (double b = 0; b <= 4; b += 0.25) {
      for (double c = 0; c <= 40; c += 2.6) check_linear(on, {a, b, c}, {a, b, c});
    }
  }
  check_linear(on, {4, 4, 40}, {4, 4, 40});
}

TEST_CASE("outside the hull the nearest point counts") {
  const Interpolation on = interpolation(grid(4));
  check_linear(on, {5, 1.5, 7}, {3, 1.5, 7});   // beyond a face
  check_linear(on, {-1, 8, 7}, {0, 3, 7});      // an edge
  check_linear(on, {-1, -2, -1e6}, {0, 0, 0});  // a corner
  check_linear(on, {3 + 1e-9, 1, 5}, {3, 1, 5});
}

TEST_CASE("every axis counts by the samples' range on it") {
  // The tetrahedron x/2 + y/2 + z/200 <= 1. From (2, 0, 200) by the axes' ranges its face is
  // reached at equal shares of both; unscaled, almost all would be taken from x.
  const Interpolation on = interpolation(
      {{{0, 0, 0}, {0, 0}}, {{2, 0, 0}, {1, 0}}, {{0, 2, 0}, {0, 0}}, {{0, 0, 200}, {0, 1}}});
  const auto [x, z] = on.at({2, 0, 200});
  CHECK(x == doctest::Approx(0.5));
  CHECK(z == doctest::Approx(0.5));
}

TEST_CASE("points without volume cannot be interpolated") {
  CHECK_FALSE(Interpolation::of({}).has_value());
  CHECK_FALSE(Interpolation::of({{{1, 1, 1}, {}}, {{2, 1, 1}, {}}, {{1, 2, 1}, {}}}).has_value());
  std::vector<Interpolation::Sample> flat;
  for (const auto& sample : grid(4)) {
    if (sample.at[0] == 1) flat.push_back(sample);
  }
  CHECK_FALSE(Interpolation::of(flat).has_value());
  CHECK_FALSE(Interpolation::of(std::vector<Interpolation::Sample>(8)).has_value());
}

TEST_CASE("a triangulation covers its points once") {
  const Interpolation on = interpolation(grid(4));
  const auto& cells = on.triangulation().cells();
  int solid = 0;
  for (size_t i = 0; i < cells.size(); ++i) {
    solid += cells[i].flat ? 0 : 1;
    for (const int n : cells[i].neighbours) {
      if (n == Triangulation::kOutside) continue;
      const auto& back = cells.at(size_t(n)).neighbours;
      CHECK(std::find(back.begin(), back.end(), int(i)) != back.end());
    }
  }
  CHECK(solid >= 27 * 5);
  const auto place = on.triangulation().find({1.25, 1.5, 12});
  REQUIRE(place.cell != Triangulation::kOutside);
  double sum = 0;
  for (const double w : place.weights) {
    CHECK(w >= -1e-12);
    sum += w;
  }
  CHECK(sum == doctest::Approx(1));
  CHECK(on.triangulation().find({-1, 0, 0}).cell == Triangulation::kOutside);
  CHECK(on.triangulation().find({0, 0, std::nan("")}).cell == Triangulation::kOutside);
}
