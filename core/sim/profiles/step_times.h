#pragma once

// How long the steps of one application take on one kind of accelerator, on any placement and
// batch. The rules follow the simulator published with Pollux (OSDI'21, section 5.3).

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/goodput/params.h"
#include "core/sim/profiles/interpolation.h"

namespace adaptdl {

// The largest valid batch, in samples.
constexpr int64_t kMaxBatch = int64_t{1} << 40;
// The most replicas of a measurement, and the longest step in seconds. Larger numbers are mistakes.
constexpr int kMaxReplicas = 1 << 20;
constexpr double kMaxStep = 1e6;

// One optimizer step without accumulation. A step with s accumulation steps takes
// step_s + s (step_s - sync_s).
struct StepTime {
  double step_s = 0;  // > 0
  double sync_s = 0;  // the part of it spent synchronising gradients, in [0, step_s]

  bool operator==(const StepTime&) const = default;
};

// GPUs on each node of a placement, in the order of the job's node list; all > 0.
using Placement = std::vector<int>;

// The placement's lexicographically smallest rotation without its zeros. Placements with the same
// canonical form count as equally fast.
Placement canonical_placement(std::span<const int> gpus_per_node);

// The run lengths of a node list: {3, 3, 1, 1, 3} is {2, 2, 1}.
Placement placement_of(std::span<const int> nodes);

struct PlacementMeasurement {
  Placement gpus;
  int64_t atomic = 0;  // samples in one replica's forward and backward
  StepTime time;
};

struct SizeMeasurement {
  int nodes = 0, replicas = 0;
  int64_t atomic = 0;
  StepTime time;
};

// What was measured on one kind of accelerator. Missing bounds are derived from the measurements.
struct Measurements {
  std::vector<PlacementMeasurement> placements;
  std::vector<SizeMeasurement> sizes;  // for sizes beyond those placements; may be empty
  std::optional<int64_t> atomic_min;   // default: the smallest of `placements`
  std::optional<int64_t> atomic_max;   // default: the largest
};

// Immutable; any number of threads may use one object.
class StepTimes {
 public:
  // Throws Error for inconsistent measurements: a duplicate placement and batch, times or bounds
  // out of range. Builds the triangulation: some tens of milliseconds for a thousand measurements.
  explicit StepTimes(const Measurements& measured);

  // Samples that a replica can compute at once.
  int64_t atomic_min() const { return atomic_min_; }
  int64_t atomic_max() const { return atomic_max_; }
  // The same on a placement: if it was measured, at most the largest batch measured there.
  int64_t atomic_max(std::span<const int> gpus_per_node) const;
  int max_replicas() const { return max_replicas_; }  // that were measured, >= 1

  // For a measured placement (up to rotation): linear in `atomic` between its measurements, beyond
  // them the nearest one. For any other placement: linear in (nodes, replicas, atomic) between the
  // means of all measurements, see interpolation.h; the number of nodes is limited to the largest
  // measured one. If the measurements span no volume (for example, all on one node), by the
  // step-time model fitted to them (goodput/fit.h), which assumes low costs for what was never
  // measured. Requires: at least one GPU, atomic > 0. About a microsecond.
  StepTime at(std::span<const int> gpus_per_node, double atomic) const;

  // The same without the placement's own measurements. Requires: 1 <= nodes <= replicas.
  StepTime interpolated(int nodes, int replicas, double atomic) const;

  // Samples/s of one replica alone at its largest batch.
  double speed() const;

  // Whether the placement itself was measured.
  bool measured(std::span<const int> gpus_per_node) const;

  // Null if the measurements span no volume.
  const Interpolation* interpolation() const { return sizes_ ? &*sizes_ : nullptr; }

 private:
  struct Point {
    double atomic = 0;
    StepTime time;
  };

  void take_placements(const std::vector<PlacementMeasurement>& placements);
  void take_bounds(const Measurements& measured);
  void interpolate_sizes(const Measurements& measured);
  const std::vector<Point>* curve(std::span<const int> gpus_per_node) const;

  std::map<Placement, std::vector<Point>> curves_;  // by canonical placement; sorted by atomic
  std::optional<Interpolation> sizes_;
  std::optional<PerfParams> model_;  // if there is no interpolation
  int max_nodes_ = 0;                // that were measured
  int64_t atomic_min_ = 1, atomic_max_ = 1;
  int max_replicas_ = 1;
};

// Throws Error "WHAT is ..." for a batch out of range.
void check_batch(int64_t batch, const std::string& what);

// Linear between two values. Not std::lerp, whose rounding differs from the publications'.
inline double mix(double low, double high, double weight) {
  return low + weight * (high - low);
}

}  // namespace adaptdl
