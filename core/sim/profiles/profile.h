#pragma once

// The measurements of one application for simulating its jobs: how long its steps take, and how it
// converges, on any placement and batch. The format and the rules follow the data published with
// Pollux (OSDI'21, section 5.3); profile_files.h reads them.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/goodput/goodput.h"
#include "core/sim/profiles/interpolation.h"

namespace adaptdl {

// The largest valid batch, in samples.
constexpr int64_t kMaxBatch = int64_t{1} << 40;

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

// A complete training at one total batch: its state at the end of each epoch.
struct ValidationRun {
  struct Row {
    double progress = 0;    // scale-invariant iterations
    double iterations = 0;  // optimizer steps
    GradParams grad;
  };
  int64_t batch = 0;
  std::vector<Row> epochs;
};

// The input of a profile. Missing optional values are derived from the measurements.
struct ProfileData {
  std::string application;
  std::vector<PlacementMeasurement> placements;
  std::vector<SizeMeasurement> sizes;    // for sizes beyond those placements; may be empty
  std::vector<ValidationRun> runs;       // one for each total batch, as many epochs in each
  std::optional<int64_t> initial_batch;  // M0; default: the smallest batch of `runs`
  std::optional<int64_t> max_batch;      // M_max; default: the largest
  std::optional<int64_t> atomic_min;     // default: the smallest of `placements`
  std::optional<int64_t> atomic_max;     // default: the largest
  std::optional<int> max_replicas;       // default: the most that were measured
  std::optional<int64_t> fixed_batch;    // total; for a job that cannot adapt its batch
  std::optional<double> rescale_s;       // cost of a change of the allocation, >= 0
  std::optional<double> start_s;         // until new replicas take part, >= 0; none: in rescale_s
  // Whether the last part of an epoch is rounded to whole seconds, as by the simulator published
  // with Pollux. With short epochs such a job would end at once.
  bool whole_seconds = true;
};

// Immutable; any number of threads may use one object.
class Profile {
 public:
  // Throws Error "APPLICATION: ..." for inconsistent measurements: a duplicate placement and batch,
  // runs with different numbers of epochs, progress that does not grow, inconsistent bounds. Builds
  // the triangulation: some tens of milliseconds for a thousand measurements.
  explicit Profile(ProfileData data);

  const std::string& application() const { return application_; }
  int epochs() const { return static_cast<int>(epoch_ends_.size()); }
  const BatchBounds& batch() const { return batch_; }  // accumulation is allowed
  // The most replicas that the measurements, and atomic_min samples on each replica, allow; >= 1.
  int max_replicas() const { return max_replicas_; }
  const std::optional<int64_t>& fixed_batch() const { return fixed_batch_; }
  // Seconds without progress after a change of the allocation, if that was measured.
  const std::optional<double>& rescale_s() const { return rescale_s_; }
  const std::optional<double>& start_s() const { return start_s_; }
  bool whole_seconds() const { return whole_seconds_; }

  // For a measured placement (up to rotation): linear in `atomic` between its measurements, beyond
  // them the nearest one. For any other placement: linear in (nodes, replicas, atomic) between the
  // means of all measurements, see interpolation.h; the number of nodes is limited to the largest
  // measured one. If the measurements span no volume (for example, all on one node), by the
  // step-time model fitted to them (goodput/fit.h), which assumes low costs for what was never
  // measured. Requires: at least one GPU, atomic > 0. About a microsecond.
  StepTime step_time(std::span<const int> gpus_per_node, double atomic) const;

  // The same without the placement's own measurements. Requires: 1 <= nodes <= replicas.
  StepTime interpolated_step_time(int nodes, int replicas, double atomic) const;

  // The gradient statistics after that many epochs at a total batch: linear between the two
  // neighbouring runs, beyond them the nearest. Requires: 0 <= epoch < epochs(), total_batch > 0.
  // O(log runs).
  GradParams grad(int epochs_finished, double total_batch) const;

  // Optimizer steps from the start to the end of that epoch, all at this batch. As above.
  double iterations(int epoch, double total_batch) const;

  // Scale-invariant iterations at which the epoch (from 0) ends: the smallest of all runs, because
  // progress does not depend on the batch. The job ends with its last epoch.
  double progress_at_end(int epoch) const { return epoch_ends_.at(static_cast<size_t>(epoch)); }

  // Whether the placement itself was measured.
  bool measured(std::span<const int> gpus_per_node) const;

  // Null if the measurements span no volume.
  const Interpolation* interpolation() const { return sizes_ ? &*sizes_ : nullptr; }

 private:
  struct Point {
    double atomic = 0;
    StepTime time;
  };

  void take_runs(std::vector<ValidationRun> runs);
  void take_placements(const std::vector<PlacementMeasurement>& placements);
  void take_bounds(const ProfileData& data);
  void interpolate_sizes(const ProfileData& data);
  // Calls f(run below, run above, weight of the one above).
  template <typename F>
  auto between_runs(double total_batch, F&& f) const;

  std::string application_;
  std::map<Placement, std::vector<Point>> curves_;  // by canonical placement; sorted by atomic
  std::optional<Interpolation> sizes_;
  std::optional<PerfParams> model_;  // if there is no interpolation
  int max_nodes_ = 0;                // that were measured
  std::vector<ValidationRun> runs_;  // sorted by batch, never empty
  std::vector<double> epoch_ends_;
  BatchBounds batch_;
  int max_replicas_ = 1;
  std::optional<int64_t> fixed_batch_;
  std::optional<double> rescale_s_, start_s_;
  bool whole_seconds_ = true;
};

}  // namespace adaptdl
