// Builds a Triangulation with Qhull. A file of its own, because Qhull's C headers define many
// macros.

extern "C" {
#include <libqhull_r/qhull_ra.h>
}

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/sim/profiles/triangulation.h"

namespace adaptdl {
namespace {

// As in SciPy: merging instead of perturbation (Qt, Qz), the lifted coordinate scaled (Qbb), and no
// error for the wide facets of a grid (Q12).
constexpr char kCommand[] = "qhull d Qt Qbb Qc Qz Q12";

double norm1(const std::array<Point3, 3>& m) {
  double largest = 0;
  for (size_t j = 0; j < 3; ++j) {
    largest = std::max(largest, std::abs(m[0][j]) + std::abs(m[1][j]) + std::abs(m[2][j]));
  }
  return largest;
}

// By Gauss-Jordan elimination with row pivots; empty if a pivot is zero.
std::optional<std::array<Point3, 3>> inverse(std::array<Point3, 3> m) {
  std::array<Point3, 3> result{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
  for (size_t column = 0; column < 3; ++column) {
    size_t pivot = column;
    for (size_t row = column + 1; row < 3; ++row) {
      if (std::abs(m[row][column]) > std::abs(m[pivot][column])) pivot = row;
    }
    if (m[pivot][column] == 0) return std::nullopt;
    std::swap(m[pivot], m[column]);
    std::swap(result[pivot], result[column]);
    for (size_t row = 0; row < 3; ++row) {
      if (row == column) continue;
      const double factor = m[row][column] / m[column][column];
      for (size_t j = 0; j < 3; ++j) {
        m[row][j] -= factor * m[column][j];
        result[row][j] -= factor * result[column][j];
      }
    }
  }
  for (size_t row = 0; row < 3; ++row) {
    for (double& value : result[row]) value /= m[row][row];
  }
  return result;
}

void set_weights(Triangulation::Cell& cell, std::span<const Point3> points) {
  constexpr double kFlat = 1000 * std::numeric_limits<double>::epsilon();
  const auto corner = [&](size_t k) { return points[static_cast<size_t>(cell.corners[k])]; };
  cell.last_corner = corner(3);
  std::array<Point3, 3> edges{};  // one in each column
  for (size_t row = 0; row < 3; ++row) {
    for (size_t column = 0; column < 3; ++column) {
      edges[row][column] = corner(column)[row] - cell.last_corner[row];
    }
  }
  const auto inverted = inverse(edges);
  cell.flat = !inverted || !(1 / (norm1(edges) * norm1(*inverted)) >= kFlat);
  if (!cell.flat) cell.to_weights = *inverted;
}

}  // namespace

// One run of Qhull and its memory.
class QhullRun {
 public:
  QhullRun() : qh_(std::make_unique<qhT>()), log_(std::fopen("/dev/null", "w")) {
    if (!log_) fail("/dev/null: cannot open it; Qhull needs it for its messages");
    qh_zero(qh_.get(), log_.get());
  }
  QhullRun(const QhullRun&) = delete;
  QhullRun& operator=(const QhullRun&) = delete;
  ~QhullRun() {
    qh_freeqhull(qh_.get(), !qh_ALL);
    int blocks = 0, bytes = 0;
    qh_memfreeshort(qh_.get(), &blocks, &bytes);
  }

  std::optional<Triangulation> triangulate(std::span<const Point3> points);

 private:
  struct Close {
    void operator()(FILE* file) const { std::fclose(file); }
  };

  int run(std::vector<Point3>& points);
  std::vector<Triangulation::Cell> cells();

  std::unique_ptr<qhT> qh_;
  std::unique_ptr<FILE, Close> log_;
};

// 0, or Qhull's error number.
int QhullRun::run(std::vector<Point3>& points) {
  std::string command = kCommand;
  return qh_new_qhull(qh_.get(), 3, static_cast<int>(points.size()), points.data()->data(), False,
                      command.data(), nullptr, log_.get());
}

std::vector<Triangulation::Cell> QhullRun::cells() {
  qhT* qh = qh_.get();  // Qhull's macros expect this name
  const auto used = [&](const facetT* facet) { return facet->upperdelaunay == qh->UPPERdelaunay; };
  std::vector<int> index(qh->facet_id + 1, Triangulation::kOutside);
  int count = 0;
  facetT* facet = nullptr;
  FORALLfacets {
    if (used(facet)) index[facet->id] = count++;
  }
  std::vector<Triangulation::Cell> cells;
  cells.reserve(static_cast<size_t>(count));
  FORALLfacets {
    if (!used(facet)) continue;
    if (!facet->simplicial) fail("Qhull returned a cell with more than four corners");
    Triangulation::Cell cell;
    for (int k = 0; k < 4; ++k) {
      const auto* vertex = SETelemt_(facet->vertices, k, vertexT);
      const auto* neighbour = SETelemt_(facet->neighbors, k, facetT);
      cell.corners[static_cast<size_t>(k)] = qh_pointid(qh, vertex->point);
      cell.neighbours[static_cast<size_t>(k)] = index[neighbour->id];
    }
    std::copy_n(facet->normal, 4, cell.normal.begin());
    cell.offset = facet->offset;
    cells.push_back(cell);
  }
  return cells;
}

std::optional<Triangulation> QhullRun::triangulate(std::span<const Point3> points) {
  std::vector<Point3> copy(points.begin(), points.end());  // Qhull asks for a mutable pointer
  const int error = run(copy);
  if (error == qh_ERRsingular || error == qh_ERRinput) return std::nullopt;
  if (error != 0) fail("Qhull cannot triangulate {} points (error {})", points.size(), error);

  Triangulation result;
  result.cells_ = cells();
  for (auto& cell : result.cells_) set_weights(cell, points);
  result.lift_scale_ = qh_->last_newhigh / (qh_->last_high - qh_->last_low);
  result.lift_shift_ = -qh_->last_low * result.lift_scale_;
  result.low_ = result.high_ = points[0];
  for (const Point3& point : points) {
    for (size_t i = 0; i < 3; ++i) {
      result.low_[i] = std::min(result.low_[i], point[i]);
      result.high_[i] = std::max(result.high_[i], point[i]);
    }
  }
  const auto solid = [](const Triangulation::Cell& cell) { return !cell.flat; };
  if (std::none_of(result.cells_.begin(), result.cells_.end(), solid)) return std::nullopt;
  result.fill_columns(points);
  return result;
}

std::optional<Triangulation> Triangulation::of(std::span<const Point3> points) {
  if (points.size() < 4) return std::nullopt;
  return QhullRun().triangulate(points);
}

}  // namespace adaptdl
