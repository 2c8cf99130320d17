#pragma once

// A Delaunay triangulation of points in space, and the search for the cell that contains a point.
//
// Measured sizes lie on a grid, so their triangulation is not unique, and on faces of cells without
// volume the neighbouring cells disagree. To reproduce the numbers of the simulator published with
// Pollux (OSDI'21), both the triangulation (Qhull's, of the points in the given order, unscaled)
// and the search are those of SciPy's LinearNDInterpolator, which that simulator used.

#include <array>
#include <optional>
#include <span>
#include <vector>

namespace adaptdl {

using Point3 = std::array<double, 3>;

// Barycentric coordinates of a point, one for each corner; their sum is 1.
using Weights = std::array<double, 4>;

// Immutable; any number of threads may use one object.
class Triangulation {
 public:
  static constexpr int kOutside = -1;

  struct Cell {
    std::array<int, 4> corners;     // indices of points
    std::array<int, 4> neighbours;  // the cell opposite to each corner; kOutside at the hull
    // The first three weights of x are to_weights (x - last_corner).
    std::array<Point3, 3> to_weights;
    Point3 last_corner;
    bool flat = false;  // without volume, up to rounding: its weights are undefined
    // x, lifted to the paraboloid, is normal . (x, lift(x)) + offset above the cell's plane.
    std::array<double, 4> normal;
    double offset = 0;
  };

  // A cell and the point's weights in it. Outside, the weights are undefined.
  struct Place {
    int cell = kOutside;
    Weights weights{};
  };

  // Empty if the points span no volume (fewer than four never do). Throws Error if Qhull fails
  // otherwise. Requires: finite coordinates. Milliseconds for hundreds of points.
  static std::optional<Triangulation> of(std::span<const Point3> points);

  // A microsecond. Always starts at the first cell, so the result does not depend on earlier calls.
  Place find(const Point3& x) const;

  const std::vector<Cell>& cells() const { return cells_; }  // in Qhull's order
  // lift(x) = lift_scale |x|^2 + lift_shift
  double lift_scale() const { return lift_scale_; }
  double lift_shift() const { return lift_shift_; }

 private:
  friend class QhullRun;

  double height(const Cell& cell, const std::array<double, 4>& lifted) const;
  int climb(const Point3& x) const;
  Place scan(const Point3& x) const;
  size_t column(const Point3& x) const;
  void fill_columns(std::span<const Point3> points);

  std::vector<Cell> cells_;
  double lift_scale_ = 0, lift_shift_ = 0;
  Point3 low_{}, high_{};  // of the points
  // By columns of a grid on the first two axes: all cells, in order, that may contain a point of
  // the column. Scans are frequent, and there are thousands of cells.
  std::vector<std::vector<int>> columns_;
};

}  // namespace adaptdl
