#include "core/sim/sim_job.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/sim/baselines/fixed_batch.h"

namespace adaptdl {

SimJob::SimJob(const Profile& profile, int64_t fixed_batch)
    : profile_(&profile), fixed_batch_(profile.fixed_batch().value_or(fixed_batch)) {}

void SimJob::place(const std::vector<int>& nodes, double rescale_s, double start_s,
                   const std::string& kind) {
  const bool in_vain = arrival_.has_value();
  arrival_.reset();
  if (in_vain && nodes == nodes_ && kind == kind_) return;
  const bool some_stay =
      kind == kind_ &&
      std::find_first_of(nodes.begin(), nodes.end(), nodes_.begin(), nodes_.end()) != nodes.end();
  if (!nodes.empty() && !some_stay) {
    take(nodes, kind, start_s + rescale_s);
  } else if (start_s <= 0 || nodes.size() <= nodes_.size()) {
    take(nodes, kind, rescale_s);
  } else {
    arrival_ = {nodes, kind, start_s, rescale_s};
  }
}

void SimJob::move(const std::vector<int>& nodes) {
  ADAPTDL_CHECK(placement_of(nodes) == gpus_per_node_);
  arrival_.reset();
  nodes_ = nodes;
}

void SimJob::take(const std::vector<int>& nodes, const std::string& kind, double rescale_s) {
  nodes_ = nodes;
  gpus_per_node_ = placement_of(nodes);
  if (!nodes.empty()) kind_ = kind;
  replicas_ = static_cast<int>(nodes.size());
  rescale_left_s_ = replicas_ > 0 ? rescale_s : 0;
  if (replicas_ > 0) choose_batch();
}

double SimJob::remaining_progress() const {
  if (finished()) return 0;
  return std::max(0.0, profile_->progress_at_end(profile_->epochs() - 1) - progress_);
}

void SimJob::advance(double seconds, double interference) {
  while (arrival_ && seconds > 0 && !finished()) {
    const double span = std::min(arrival_->after_s, seconds);
    train(span, interference);
    seconds -= span;
    arrival_->after_s -= span;
    if (arrival_->after_s > 0 || finished()) continue;
    const Arrival arrived = *arrival_;
    arrival_.reset();
    take(arrived.nodes, arrived.kind, arrived.rescale_s);
  }
  if (seconds > 0 && !finished()) train(seconds, interference);
}

void SimJob::train(double seconds, double interference) {
  if (replicas_ == 0) {
    clock_s_ += seconds;
    return;
  }
  const double waits = std::min(rescale_left_s_, seconds);
  rescale_left_s_ -= waits;
  clock_s_ += waits;
  attained_service_ += waits * held();
  seconds -= waits;
  while (seconds > 0 && !finished()) {
    const double total = total_batch();
    const double scale = total / static_cast<double>(profile_->initial_batch());
    const StepTime time =
        profile_->times(kind_).at(gpus_per_node_, static_cast<double>(batch_.atomic));
    const double step_s = time.step_s + batch_.accum_steps * (time.step_s - time.sync_s);
    grad_ = profile_->grad(epoch_, total);
    observe(time);
    const double per_s = gain(*grad_, scale) / step_s * (1 - interference);
    const double end = profile_->progress_at_end(epoch_);
    const double to_end = (end - progress_) / per_s;
    double span = seconds;
    if (to_end < seconds) {
      // Round to whole seconds, half to even, as nearbyint does by default. Limit it to `seconds`,
      // which callers may end within a whole second.
      const double counted = profile_->whole_seconds() ? std::nearbyint(to_end) : to_end;
      span = std::min(seconds, std::max(0.0, counted));
      progress_ = end;
      ++epoch_;
    } else {
      progress_ += per_s * seconds;
    }
    clock_s_ += span;
    attained_service_ += span * held();
    seconds -= span;
    if (!finished()) choose_batch();
  }
}

// Measures every placement and batch once, and fits the model to the measurements.
void SimJob::observe(const StepTime& time) {
  const int nodes = static_cast<int>(gpus_per_node_.size());
  const double atomic = static_cast<double>(batch_.atomic);
  auto& [observed, perf] = measured_[kind_];
  for (const PerfObservation& seen : observed) {
    if (seen.nodes == nodes && seen.replicas == replicas_ && seen.atomic == atomic) return;
  }
  const double accum_s = std::max(time.step_s - time.sync_s, 1e-6 * time.step_s);
  observed.push_back({nodes, replicas_, atomic, accum_s, time.step_s});
  max_profiled_ = std::max(max_profiled_, replicas_);
  perf = fit_perf_params(observed);
}

void SimJob::choose_batch() {
  BatchBounds bounds = profile_->batch(kind_);
  bounds.atomic_max = profile_->times(kind_).atomic_max(gpus_per_node_);
  const auto& perf = measured_[kind_].perf;
  if (fixed_batch_ > 0) {
    batch_ = share_batch(bounds, fixed_batch_, replicas_);
  } else if (!perf) {
    batch_ =
        share_batch(bounds, std::max(bounds.initial, bounds.atomic_min * replicas_), replicas_);
  } else {
    batch_ = GoodputModel(*perf, *grad_, bounds.initial)
                 .optimize(static_cast<int>(gpus_per_node_.size()), replicas_, bounds);
    // Sharing among replicas rounds up, but real training does not exceed the largest batch.
    const int64_t most = bounds.max / (int64_t{replicas_} * (batch_.accum_steps + 1));
    batch_.atomic = std::max<int64_t>(1, std::min(batch_.atomic, most));
  }
}

double SimJob::total_batch() const {
  return static_cast<double>(replicas_) * static_cast<double>(batch_.atomic) *
         (batch_.accum_steps + 1);
}

JobHints SimJob::hints() const {
  JobHints hints;
  for (const auto& [kind, measured] : measured_) {
    if (!measured.perf) continue;
    if (kind.empty()) {
      hints.perf = measured.perf;
    } else {
      hints.kinds[kind] = {.perf = measured.perf, .atomic_max = profile_->times(kind).atomic_max()};
    }
  }
  if (!grad_) return hints;
  hints.grad = grad_;
  hints.batch = profile_->batch(kind_);
  hints.max_profiled_replicas = max_profiled_;
  return hints;
}

}  // namespace adaptdl
