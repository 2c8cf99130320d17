#include "core/sim/profiles/profile.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/error.h"
#include "core/goodput/fit.h"

namespace adaptdl {
namespace {

// Larger numbers are mistakes.
constexpr double kMaxStep = 1e6;  // seconds
constexpr int kMaxReplicas = 1 << 20;

std::string text_of(const Placement& gpus) {
  return fmt::format("{}", fmt::join(gpus, "+"));
}

void check_time(const StepTime& time, const std::string& what) {
  if (!(time.step_s > 0 && time.step_s <= kMaxStep)) {
    fail("{}: the step takes {} s; above 0 and at most {} is allowed", what, time.step_s, kMaxStep);
  }
  if (!(time.sync_s >= 0 && time.sync_s <= time.step_s)) {
    fail("{}: synchronisation takes {} s; from 0 to the step's {} is allowed", what, time.sync_s,
         time.step_s);
  }
}

void check_batch(int64_t batch, const std::string& what) {
  if (batch >= 1 && batch <= kMaxBatch) return;
  fail("{} is {}; from 1 to {} samples are allowed", what, batch, kMaxBatch);
}

double mix(double low, double high, double weight) {
  return low + weight * (high - low);
}

}  // namespace

Placement canonical_placement(std::span<const int> gpus_per_node) {
  Placement gpus;
  std::copy_if(gpus_per_node.begin(), gpus_per_node.end(), std::back_inserter(gpus),
               [](int count) { return count != 0; });
  Placement least = gpus;
  for (size_t i = 1; i < gpus.size(); ++i) {
    std::rotate(gpus.begin(), gpus.begin() + 1, gpus.end());
    if (gpus < least) least = gpus;
  }
  return least;
}

Placement placement_of(std::span<const int> nodes) {
  Placement runs;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (i == 0 || nodes[i] != nodes[i - 1]) runs.push_back(0);
    ++runs.back();
  }
  return runs;
}

Profile::Profile(ProfileData data) : application_(data.application) {
  if (application_.empty()) fail("a profile has no application; give it a name");
  try {
    take_runs(std::move(data.runs));
    take_placements(data.placements);
    take_bounds(data);
    interpolate_sizes(data);
  } catch (const Error& error) {
    fail("{}: {}", application_, error.what());
  }
}

void Profile::take_runs(std::vector<ValidationRun> runs) {
  if (runs.empty()) fail("no validation run was recorded; one at the initial batch is needed");
  std::stable_sort(runs.begin(), runs.end(),
                   [](const auto& a, const auto& b) { return a.batch < b.batch; });
  const size_t epochs = runs[0].epochs.size();
  for (size_t i = 0; i < runs.size(); ++i) {
    const ValidationRun& run = runs[i];
    const std::string what = fmt::format("the validation run at batch {}", run.batch);
    check_batch(run.batch, what);
    if (i > 0 && run.batch == runs[i - 1].batch) fail("{} is given twice; once is allowed", what);
    if (run.epochs.empty()) fail("{} has no epoch; at least one is needed", what);
    if (run.epochs.size() != epochs) {
      fail("{} has {} epochs, but the run at batch {} has {}; all need the same number", what,
           run.epochs.size(), runs[0].batch, epochs);
    }
    ValidationRun::Row before;
    for (size_t e = 0; e < epochs; ++e) {
      const ValidationRun::Row& row = run.epochs[e];
      if (!(row.progress > before.progress && row.iterations > before.iterations &&
            std::isfinite(row.progress) && std::isfinite(row.iterations))) {
        fail("{}: progress and iterations at the end of epoch {} are {} and {}; both must grow",
             what, e, row.progress, row.iterations);
      }
      if (!(row.grad.sqr >= 0 && row.grad.var >= 0 && std::isfinite(row.grad.sqr) &&
            std::isfinite(row.grad.var))) {
        fail("{}: grad_sqr and grad_var of epoch {} are {} and {}; both must be at least 0", what,
             e, row.grad.sqr, row.grad.var);
      }
      before = row;
    }
  }
  runs_ = std::move(runs);
  for (size_t e = 0; e < epochs; ++e) {
    double least = runs_[0].epochs[e].progress;
    for (const auto& run : runs_) least = std::min(least, run.epochs[e].progress);
    epoch_ends_.push_back(least);
  }
}

void Profile::take_placements(const std::vector<PlacementMeasurement>& placements) {
  if (placements.empty()) fail("no placement was measured; measure at least one replica alone");
  for (const auto& [gpus, atomic, time] : placements) {
    const std::string what = fmt::format("placement {} with {} samples", text_of(gpus), atomic);
    check_batch(atomic, what);
    check_time(time, what);
    int64_t replicas = 0;
    for (const int count : gpus) {
      if (count < 1 || count > kMaxReplicas) {
        fail("{}: {} GPUs on a node; from 1 to {} are allowed", what, count, kMaxReplicas);
      }
      replicas += count;
    }
    if (replicas < 1 || replicas > kMaxReplicas) {
      fail("{}: has {} GPUs; from 1 to {} are allowed", what, replicas, kMaxReplicas);
    }
    max_nodes_ = std::max(max_nodes_, static_cast<int>(gpus.size()));
    curves_[canonical_placement(gpus)].push_back({static_cast<double>(atomic), time});
  }
  for (auto& [gpus, curve] : curves_) {
    std::sort(curve.begin(), curve.end(),
              [](const Point& a, const Point& b) { return a.atomic < b.atomic; });
    for (size_t i = 1; i < curve.size(); ++i) {
      if (curve[i].atomic != curve[i - 1].atomic) continue;
      fail("placement {} with {} samples is given twice, rotations included; once is allowed",
           text_of(gpus), curve[i].atomic);
    }
  }
}

void Profile::take_bounds(const ProfileData& data) {
  int64_t least = kMaxBatch, largest = 0;
  int64_t replicas = 1;
  for (const auto& measured : data.placements) {
    least = std::min(least, measured.atomic);
    largest = std::max(largest, measured.atomic);
    replicas =
        std::max(replicas, std::accumulate(measured.gpus.begin(), measured.gpus.end(), int64_t{0}));
  }
  for (const auto& measured : data.sizes) replicas = std::max<int64_t>(replicas, measured.replicas);
  batch_.initial = data.initial_batch.value_or(runs_.front().batch);
  batch_.max = data.max_batch.value_or(runs_.back().batch);
  batch_.atomic_min = data.atomic_min.value_or(least);
  batch_.atomic_max = data.atomic_max.value_or(largest);
  batch_.accumulation = true;
  check_batch(batch_.initial, "initial_batch");
  check_batch(batch_.max, "max_batch");
  check_batch(batch_.atomic_min, "atomic_min");
  check_batch(batch_.atomic_max, "atomic_max");
  if (batch_.max < batch_.initial) {
    fail("max_batch is {}; it must be at least initial_batch, {}", batch_.max, batch_.initial);
  }
  if (batch_.atomic_max < batch_.atomic_min) {
    fail("atomic_max is {}; it must be at least atomic_min, {}", batch_.atomic_max,
         batch_.atomic_min);
  }
  if (data.max_replicas && (*data.max_replicas < 1 || *data.max_replicas > kMaxReplicas)) {
    fail("max_replicas is {}; from 1 to {} are allowed", *data.max_replicas, kMaxReplicas);
  }
  fixed_batch_ = data.fixed_batch;
  if (fixed_batch_) check_batch(*fixed_batch_, "fixed_batch");
  rescale_s_ = data.rescale_s;
  start_s_ = data.start_s;
  whole_seconds_ = data.whole_seconds;
  if (start_s_ && !(*start_s_ >= 0 && *start_s_ <= kMaxStep)) {
    fail("start_s is {}; from 0 to {} seconds are allowed", *start_s_, kMaxStep);
  }
  if (rescale_s_ && !(*rescale_s_ >= 0 && *rescale_s_ <= kMaxStep)) {
    fail("rescale_s is {}; from 0 to {} seconds are allowed", *rescale_s_, kMaxStep);
  }
  replicas = data.max_replicas.value_or(static_cast<int>(replicas));
  replicas = std::min(replicas, batch_.max / batch_.atomic_min);
  max_replicas_ = static_cast<int>(std::max<int64_t>(replicas, 1));
}

void Profile::interpolate_sizes(const ProfileData& data) {
  struct Sum {
    double step = 0, sync = 0;
    int count = 0;
  };
  std::map<Point3, Sum> sums;
  for (const auto& [gpus, atomic, time] : data.placements) {
    const double replicas = std::accumulate(gpus.begin(), gpus.end(), 0.0);
    Sum& sum = sums[{static_cast<double>(gpus.size()), replicas, static_cast<double>(atomic)}];
    sum.step += time.step_s;
    sum.sync += time.sync_s;
    ++sum.count;
  }
  // The triangulation depends on the order of the samples.
  std::vector<Interpolation::Sample> samples;
  for (const auto& [at, sum] : sums) {
    samples.push_back({at, {sum.step / sum.count, sum.sync / sum.count}});
  }
  for (const auto& [nodes, replicas, atomic, time] : data.sizes) {
    const std::string what =
        fmt::format("{} replicas on {} nodes with {} samples", replicas, nodes, atomic);
    check_batch(atomic, what);
    check_time(time, what);
    if (nodes < 1 || replicas < nodes || replicas > kMaxReplicas) {
      fail("{}: at least one node, a replica on each and at most {} replicas are needed", what,
           kMaxReplicas);
    }
    const Point3 at{static_cast<double>(nodes), static_cast<double>(replicas),
                    static_cast<double>(atomic)};
    if (!sums.emplace(at, Sum()).second) fail("{}: is given twice; once is allowed", what);
    max_nodes_ = std::max(max_nodes_, nodes);
    samples.push_back({at, {time.step_s, time.sync_s}});
  }
  std::vector<PerfObservation> observations;
  for (const auto& [at, value] : samples) {
    const double accum_s = std::max(value[0] - value[1], 1e-6 * value[0]);
    observations.push_back(
        {static_cast<int>(at[0]), static_cast<int>(at[1]), at[2], accum_s, value[0]});
  }
  sizes_ = Interpolation::of(std::move(samples));
  if (!sizes_) model_ = fit_perf_params(observations);
}

bool Profile::measured(std::span<const int> gpus_per_node) const {
  return curves_.contains(canonical_placement(gpus_per_node));
}

StepTime Profile::step_time(std::span<const int> gpus_per_node, double atomic) const {
  const Placement gpus = canonical_placement(gpus_per_node);
  ADAPTDL_CHECK(!gpus.empty() && atomic > 0);
  const auto found = curves_.find(gpus);
  if (found == curves_.end()) {
    return interpolated_step_time(static_cast<int>(gpus.size()),
                                  std::accumulate(gpus.begin(), gpus.end(), 0), atomic);
  }
  const std::vector<Point>& curve = found->second;
  const auto above = std::lower_bound(curve.begin(), curve.end(), atomic,
                                      [](const Point& p, double x) { return p.atomic < x; });
  if (above == curve.begin()) return curve.front().time;
  if (above == curve.end()) return curve.back().time;
  const Point& low = above[-1];
  const double weight = (atomic - low.atomic) / (above->atomic - low.atomic);
  return {mix(low.time.step_s, above->time.step_s, weight),
          mix(low.time.sync_s, above->time.sync_s, weight)};
}

StepTime Profile::interpolated_step_time(int nodes, int replicas, double atomic) const {
  ADAPTDL_CHECK(nodes >= 1 && nodes <= replicas && atomic > 0);
  if (!sizes_) {
    const double step_s = optim_time(*model_, nodes, replicas, atomic);
    return {step_s, std::max(0.0, step_s - accum_time(*model_, atomic))};
  }
  const auto [step, sync] = sizes_->at(
      {static_cast<double>(std::min(nodes, max_nodes_)), static_cast<double>(replicas), atomic});
  return {step, sync};
}

template <typename F>
auto Profile::between_runs(double total_batch, F&& f) const {
  ADAPTDL_CHECK(total_batch > 0);
  const auto above = std::lower_bound(runs_.begin(), runs_.end(), total_batch,
                                      [](const ValidationRun& run, double batch) {
                                        return static_cast<double>(run.batch) < batch;
                                      });
  if (above == runs_.begin()) return f(*above, *above, 0.0);
  if (above == runs_.end()) return f(runs_.back(), runs_.back(), 0.0);
  const ValidationRun& below = above[-1];
  const double width = static_cast<double>(above->batch - below.batch);
  return f(below, *above, (total_batch - static_cast<double>(below.batch)) / width);
}

GradParams Profile::grad(int epochs_finished, double total_batch) const {
  const auto e = static_cast<size_t>(epochs_finished);
  ADAPTDL_CHECK(e < epoch_ends_.size());
  return between_runs(total_batch, [e](const auto& below, const auto& above, double weight) {
    const GradParams &low = below.epochs[e].grad, &high = above.epochs[e].grad;
    return GradParams{mix(low.sqr, high.sqr, weight), mix(low.var, high.var, weight)};
  });
}

double Profile::iterations(int epoch, double total_batch) const {
  const auto e = static_cast<size_t>(epoch);
  ADAPTDL_CHECK(e < epoch_ends_.size());
  return between_runs(total_batch, [e](const auto& below, const auto& above, double weight) {
    return mix(below.epochs[e].iterations, above.epochs[e].iterations, weight);
  });
}

}  // namespace adaptdl
