#include "core/sim/profiles/triangulation.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace adaptdl {
namespace {

constexpr double kEpsilon = 100 * std::numeric_limits<double>::epsilon();
// Toward a flat neighbour a weight may be as negative as this, because points in a flat cell belong
// to no cell.
const double kEpsilonToFlat = std::sqrt(std::numeric_limits<double>::epsilon());

constexpr size_t kColumns = 16;   // on each axis
constexpr double kMargin = 1e-6;  // of an axis; far more than the tolerances above can reach

// One weight at a time, because in most cells on the way the first one decides.
double weight(const Triangulation::Cell& cell, const Point3& x, size_t corner) {
  const Point3& row = cell.to_weights[corner];
  double sum = 0;
  for (size_t i = 0; i < 3; ++i) sum += row[i] * (x[i] - cell.last_corner[i]);
  return sum;
}

Weights weights_in(const Triangulation::Cell& cell, const Point3& x) {
  Weights w{};
  w[3] = 1;
  for (size_t i = 0; i < 3; ++i) {
    w[i] = weight(cell, x, i);
    w[3] -= w[i];
  }
  return w;
}

}  // namespace

double Triangulation::height(const Cell& cell, const std::array<double, 4>& lifted) const {
  double sum = cell.offset;
  for (size_t i = 0; i < 4; ++i) sum += cell.normal[i] * lifted[i];
  return sum;
}

// Walks from the first cell to neighbours whose planes are higher and higher at x. The cell with
// the highest plane contains x; a plane with x above it is near enough to start the search.
int Triangulation::climb(const Point3& x) const {
  const double square = x[0] * x[0] + x[1] * x[1] + x[2] * x[2];
  const std::array<double, 4> lifted{x[0], x[1], x[2], lift_scale_ * square + lift_shift_};
  int cell = 0;
  double best = height(cells_[0], lifted);
  for (bool moved = true; moved && !(best > 0);) {
    moved = false;
    for (size_t k = 0; k < 4; ++k) {
      // The neighbours of the current cell: after a move, continue with k + 1 of the new cell.
      const int neighbour = cells_[static_cast<size_t>(cell)].neighbours[k];
      if (neighbour == kOutside) continue;
      const double other = height(cells_[static_cast<size_t>(neighbour)], lifted);
      if (other > best + kEpsilon * (1 + std::abs(best))) {
        cell = neighbour;
        best = other;
        moved = true;
      }
    }
  }
  return cell;
}

size_t Triangulation::column(const Point3& x) const {
  size_t index = 0;
  for (size_t i = 0; i < 2; ++i) {
    const double share = (x[i] - low_[i]) / (high_[i] - low_[i]);
    index = index * kColumns + static_cast<size_t>(std::clamp(share, 0.0, 1.0) * (kColumns - 1));
  }
  return index;
}

void Triangulation::fill_columns(std::span<const Point3> points) {
  columns_.assign(kColumns * kColumns, {});
  const auto add = [&](const Cell& box, int cell) {
    Point3 low = high_, high = low_;
    for (size_t i = 0; i < 2; ++i) {
      for (const int corner : box.corners) {
        low[i] = std::min(low[i], points[static_cast<size_t>(corner)][i]);
        high[i] = std::max(high[i], points[static_cast<size_t>(corner)][i]);
      }
      const double margin = kMargin * (high_[i] - low_[i]);
      low[i] -= margin;
      high[i] += margin;
    }
    const size_t first = column(low), last = column(high);
    for (size_t row = first / kColumns; row <= last / kColumns; ++row) {
      for (size_t i = first % kColumns; i <= last % kColumns; ++i) {
        auto& cells = columns_[row * kColumns + i];
        if (cells.empty() || cells.back() != cell) cells.push_back(cell);
      }
    }
  };
  for (size_t i = 0; i < cells_.size(); ++i) {
    if (!cells_[i].flat) {
      add(cells_[i], static_cast<int>(i));
      continue;
    }
    for (const int n : cells_[i].neighbours) {
      if (n == kOutside || cells_[static_cast<size_t>(n)].flat) continue;
      add(cells_[static_cast<size_t>(n)], static_cast<int>(i));
    }
  }
}

// Checks the cells in order of their index, after a walk has met a flat cell. Flat cells are
// replaced by their neighbours.
Triangulation::Place Triangulation::scan(const Point3& x) const {
  Weights w{};
  const auto contains = [&](const Cell& cell, int flat_neighbour) {
    w[3] = 1;
    for (size_t k = 0; k < 4; ++k) {
      if (k < 3) {
        w[k] = weight(cell, x, k);
        w[3] -= w[k];
      }
      const bool to_flat = flat_neighbour != kOutside && cell.neighbours[k] == flat_neighbour;
      if (!(w[k] >= (to_flat ? -kEpsilonToFlat : -kEpsilon) && w[k] <= 1 + kEpsilon)) return false;
    }
    return true;
  };
  for (const int i : columns_[column(x)]) {
    const Cell& cell = cells_[static_cast<size_t>(i)];
    if (!cell.flat) {
      if (contains(cell, kOutside)) return {i, w};
      continue;
    }
    for (const int n : cell.neighbours) {
      if (n == kOutside || cells_[static_cast<size_t>(n)].flat) continue;
      if (contains(cells_[static_cast<size_t>(n)], i)) return {n, w};
    }
  }
  return {};
}

Triangulation::Place Triangulation::find(const Point3& x) const {
  for (size_t i = 0; i < 3; ++i) {
    if (!(x[i] >= low_[i] - kEpsilon && x[i] <= high_[i] + kEpsilon)) return {};
  }
  int index = climb(x);
  // Rounding could make the walk cycle.
  for (size_t steps = 0; steps <= cells_.size() / 4; ++steps) {
    const Cell& cell = cells_[static_cast<size_t>(index)];
    if (cell.flat) return scan(x);
    const Weights w = weights_in(cell, x);
    size_t k = 0;
    while (k < 4 && w[k] >= -kEpsilon) ++k;
    if (k == 4) return {index, w};  // none is above 1 then
    index = cell.neighbours[k];
    if (index == kOutside) return {};
  }
  return scan(x);
}

}  // namespace adaptdl
