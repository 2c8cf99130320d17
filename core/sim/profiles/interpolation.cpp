#include "core/sim/profiles/interpolation.h"

#include <algorithm>
#include <limits>

#include "core/base/error.h"

namespace adaptdl {
namespace {

Point3 minus(const Point3& a, const Point3& b) {
  return {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
}
double dot(const Point3& a, const Point3& b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

// Weights of the point of segment ab nearest to x.
std::array<double, 2> nearest_of_segment(const Point3& a, const Point3& b, const Point3& x) {
  const Point3 ab = minus(b, a);
  const double length = dot(ab, ab);
  const double t = length > 0 ? std::clamp(dot(minus(x, a), ab) / length, 0.0, 1.0) : 0;
  return {1 - t, t};
}

// Weights of the triangle's corners at its point nearest to x: the foot of the perpendicular if it
// is inside, else the nearest point of the three sides.
std::array<double, 3> nearest_of_triangle(const std::array<Point3, 3>& corners, const Point3& x) {
  const Point3 u = minus(corners[1], corners[0]), v = minus(corners[2], corners[0]);
  const Point3 w = minus(x, corners[0]);
  const double uu = dot(u, u), uv = dot(u, v), vv = dot(v, v), uw = dot(u, w), vw = dot(v, w);
  const double determinant = uu * vv - uv * uv;
  if (determinant > 0) {
    const double s = (vv * uw - uv * vw) / determinant, t = (uu * vw - uv * uw) / determinant;
    if (s >= 0 && t >= 0 && s + t <= 1) return {1 - s - t, s, t};
  }
  std::array<double, 3> best{};
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < 3; ++i) {
    const size_t j = (i + 1) % 3;
    const auto [a, b] = nearest_of_segment(corners[i], corners[j], x);
    Point3 away = x;
    for (size_t k = 0; k < 3; ++k) away[k] -= a * corners[i][k] + b * corners[j][k];
    if (dot(away, away) < least) {
      least = dot(away, away);
      best = {};
      best[i] = a;
      best[j] = b;
    }
  }
  return best;
}

}  // namespace

std::optional<Interpolation> Interpolation::of(std::vector<Sample> samples) {
  std::vector<Point3> points;
  for (const Sample& sample : samples) points.push_back(sample.at);
  auto triangulation = Triangulation::of(points);
  if (!triangulation) return std::nullopt;
  return Interpolation(std::move(samples), std::move(*triangulation));
}

Interpolation::Interpolation(std::vector<Sample> samples, Triangulation triangulation)
    : samples_(std::move(samples)), triangulation_(std::move(triangulation)) {
  for (const auto& cell : triangulation_.cells()) {
    for (size_t k = 0; k < 4; ++k) {
      if (cell.neighbours[k] != Triangulation::kOutside) continue;
      hull_.push_back(
          {cell.corners[(k + 1) % 4], cell.corners[(k + 2) % 4], cell.corners[(k + 3) % 4]});
    }
  }
  for (size_t i = 0; i < 3; ++i) {
    const auto [low, high] =
        std::minmax_element(samples_.begin(), samples_.end(),
                            [i](const Sample& a, const Sample& b) { return a.at[i] < b.at[i]; });
    range_[i] = high->at[i] - low->at[i];
    ADAPTDL_CHECK(range_[i] > 0);
  }
}

std::array<double, 2> Interpolation::at(const Point3& x) const {
  const auto [cell, weights] = triangulation_.find(x);
  if (cell == Triangulation::kOutside) return nearest(x);
  const auto& corners = triangulation_.cells()[static_cast<size_t>(cell)].corners;
  std::array<double, 2> result{};
  for (size_t k = 0; k < 4; ++k) {
    const Sample& sample = samples_[static_cast<size_t>(corners[k])];
    for (size_t v = 0; v < 2; ++v) result[v] += weights[k] * sample.values[v];
  }
  return result;
}

std::array<double, 2> Interpolation::nearest(const Point3& x) const {
  const auto scaled = [this](const Point3& point) {
    return Point3{point[0] / range_[0], point[1] / range_[1], point[2] / range_[2]};
  };
  const Point3 wanted = scaled(x);
  std::array<double, 2> result{};
  double least = std::numeric_limits<double>::infinity();
  for (const auto& face : hull_) {
    std::array<Point3, 3> corners;
    for (size_t k = 0; k < 3; ++k) corners[k] = scaled(samples_[static_cast<size_t>(face[k])].at);
    const auto weights = nearest_of_triangle(corners, wanted);
    Point3 away = wanted;
    for (size_t k = 0; k < 3; ++k) {
      for (size_t i = 0; i < 3; ++i) away[i] -= weights[k] * corners[k][i];
    }
    if (dot(away, away) >= least) continue;
    least = dot(away, away);
    result = {};
    for (size_t k = 0; k < 3; ++k) {
      const Sample& sample = samples_[static_cast<size_t>(face[k])];
      for (size_t v = 0; v < 2; ++v) result[v] += weights[k] * sample.values[v];
    }
  }
  return result;
}

}  // namespace adaptdl
