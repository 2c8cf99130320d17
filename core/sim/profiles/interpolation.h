#pragma once

// Step times between measured sizes: linear in each cell of a Delaunay triangulation of the points
// (nodes, replicas, atomic batch). The triangulation is not unique; triangulation.h says which it
// is.

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "core/sim/profiles/triangulation.h"

namespace adaptdl {

// Immutable; any number of threads may use one object.
class Interpolation {
 public:
  struct Sample {
    Point3 at{};
    std::array<double, 2> values{};  // step and synchronisation time
  };

  // Empty if the samples span no volume. The triangulation depends on their order.
  static std::optional<Interpolation> of(std::vector<Sample> samples);

  // Inside the hull: linear between the four samples around x. Outside: the value at the hull's
  // nearest point, with each axis scaled by the samples' range on it (the published simulator fails
  // there). About a microsecond inside; outside it checks every face of the hull.
  std::array<double, 2> at(const Point3& x) const;

  const Triangulation& triangulation() const { return triangulation_; }

 private:
  Interpolation(std::vector<Sample> samples, Triangulation triangulation);
  std::array<double, 2> nearest(const Point3& x) const;

  std::vector<Sample> samples_;
  Triangulation triangulation_;
  std::vector<std::array<int, 3>> hull_;  // corners of its faces
  Point3 range_{};                        // of the samples, > 0
};

}  // namespace adaptdl
