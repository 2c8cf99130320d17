#include "core/sim/profiles/step_times.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/goodput/fit.h"
#include "core/goodput/goodput.h"

namespace adaptdl {
namespace {

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

}  // namespace

void check_batch(int64_t batch, const std::string& what) {
  if (batch >= 1 && batch <= kMaxBatch) return;
  fail("{} is {}; from 1 to {} samples are allowed", what, batch, kMaxBatch);
}

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

StepTimes::StepTimes(const Measurements& measured) {
  take_placements(measured.placements);
  take_bounds(measured);
  interpolate_sizes(measured);
}

void StepTimes::take_placements(const std::vector<PlacementMeasurement>& placements) {
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

void StepTimes::take_bounds(const Measurements& measured) {
  int64_t least = kMaxBatch, largest = 0;
  int64_t replicas = 1;
  for (const auto& [gpus, atomic, time] : measured.placements) {
    least = std::min(least, atomic);
    largest = std::max(largest, atomic);
    replicas = std::max(replicas, std::accumulate(gpus.begin(), gpus.end(), int64_t{0}));
  }
  for (const auto& size : measured.sizes) replicas = std::max<int64_t>(replicas, size.replicas);
  atomic_min_ = measured.atomic_min.value_or(least);
  atomic_max_ = measured.atomic_max.value_or(largest);
  check_batch(atomic_min_, "atomic_min");
  check_batch(atomic_max_, "atomic_max");
  if (atomic_max_ < atomic_min_) {
    fail("atomic_max is {}; it must be at least atomic_min, {}", atomic_max_, atomic_min_);
  }
  max_replicas_ = static_cast<int>(replicas);
}

void StepTimes::interpolate_sizes(const Measurements& measured) {
  struct Sum {
    double step = 0, sync = 0;
    int count = 0;
  };
  std::map<Point3, Sum> sums;
  for (const auto& [gpus, atomic, time] : measured.placements) {
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
  for (const auto& [nodes, replicas, atomic, time] : measured.sizes) {
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

const std::vector<StepTimes::Point>* StepTimes::curve(std::span<const int> gpus_per_node) const {
  const auto found = curves_.find(canonical_placement(gpus_per_node));
  return found == curves_.end() ? nullptr : &found->second;
}

bool StepTimes::measured(std::span<const int> gpus_per_node) const {
  return curve(gpus_per_node) != nullptr;
}

int64_t StepTimes::atomic_max(std::span<const int> gpus_per_node) const {
  const auto* measured = curve(gpus_per_node);
  if (!measured) return atomic_max_;
  return std::clamp(static_cast<int64_t>(measured->back().atomic), atomic_min_, atomic_max_);
}

StepTime StepTimes::at(std::span<const int> gpus_per_node, double atomic) const {
  ADAPTDL_CHECK(!gpus_per_node.empty() && atomic > 0);
  const auto* measured = curve(gpus_per_node);
  if (!measured) {
    const Placement gpus = canonical_placement(gpus_per_node);
    return interpolated(static_cast<int>(gpus.size()), std::accumulate(gpus.begin(), gpus.end(), 0),
                        atomic);
  }
  const auto above = std::lower_bound(measured->begin(), measured->end(), atomic,
                                      [](const Point& p, double x) { return p.atomic < x; });
  if (above == measured->begin()) return measured->front().time;
  if (above == measured->end()) return measured->back().time;
  const Point& low = above[-1];
  const double weight = (atomic - low.atomic) / (above->atomic - low.atomic);
  return {mix(low.time.step_s, above->time.step_s, weight),
          mix(low.time.sync_s, above->time.sync_s, weight)};
}

double StepTimes::speed() const {
  const auto atomic = static_cast<double>(atomic_max(Placement{1}));
  return atomic / at(Placement{1}, atomic).step_s;
}

StepTime StepTimes::interpolated(int nodes, int replicas, double atomic) const {
  ADAPTDL_CHECK(nodes >= 1 && nodes <= replicas && atomic > 0);
  if (!sizes_) {
    const double step_s = optim_time(*model_, nodes, replicas, atomic);
    return {step_s, std::max(0.0, step_s - accum_time(*model_, atomic))};
  }
  const auto [step, sync] = sizes_->at(
      {static_cast<double>(std::min(nodes, max_nodes_)), static_cast<double>(replicas), atomic});
  return {step, sync};
}

}  // namespace adaptdl
