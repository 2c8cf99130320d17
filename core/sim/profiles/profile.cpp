#include "core/sim/profiles/profile.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace adaptdl {

Profile::Profile(ProfileData data) : application_(data.application) {
  if (application_.empty()) fail("a profile has no application; give it a name");
  try {
    take_runs(std::move(data.runs));
    take_times(data);
    take_bounds(data);
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

void Profile::take_times(const ProfileData& data) {
  if (!data.placements.empty() || data.kinds.empty()) times_.emplace("", StepTimes(data));
  for (const auto& [kind, measured] : data.kinds) {
    try {
      times_.emplace(kind, StepTimes(measured));
    } catch (const Error& error) {
      fail("on {}: {}", kind, error.what());
    }
  }
}

void Profile::take_bounds(const ProfileData& data) {
  initial_batch_ = data.initial_batch.value_or(runs_.front().batch);
  max_batch_ = data.max_batch.value_or(runs_.back().batch);
  check_batch(initial_batch_, "initial_batch");
  check_batch(max_batch_, "max_batch");
  if (max_batch_ < initial_batch_) {
    fail("max_batch is {}; it must be at least initial_batch, {}", max_batch_, initial_batch_);
  }
  const auto& given = data.max_replicas;
  if (given && (*given < 1 || *given > kMaxReplicas)) {
    fail("max_replicas is {}; from 1 to {} are allowed", *given, kMaxReplicas);
  }
  for (const auto& [kind, times] : times_) {
    const int64_t most =
        std::min<int64_t>(given.value_or(times.max_replicas()), max_batch_ / times.atomic_min());
    max_replicas_ = std::max(max_replicas_, static_cast<int>(most));
  }
  fixed_batch_ = data.fixed_batch;
  if (fixed_batch_) check_batch(*fixed_batch_, "fixed_batch");
  rescale_s_ = data.rescale_s;
  told_rescale_s_ = data.told_rescale_s ? data.told_rescale_s : rescale_s_;
  start_s_ = data.start_s;
  whole_seconds_ = data.whole_seconds;
  const auto check_cost = [](const std::optional<double>& seconds, const char* what) {
    if (!seconds || (*seconds >= 0 && *seconds <= kMaxStep)) return;
    fail("{} is {}; from 0 to {} seconds are allowed", what, *seconds, kMaxStep);
  };
  check_cost(start_s_, "start_s");
  check_cost(rescale_s_, "rescale_s");
  check_cost(told_rescale_s_, "told_rescale_s");
}

const StepTimes* Profile::find(const std::string& kind) const {
  auto found = times_.find(kind);
  if (found == times_.end()) found = times_.find("");
  return found == times_.end() ? nullptr : &found->second;
}

const StepTimes& Profile::times(const std::string& kind) const {
  const StepTimes* found = find(kind);
  ADAPTDL_CHECK(found != nullptr);
  return *found;
}

std::string Profile::measured_kind(const std::string& kind) const {
  ADAPTDL_CHECK(runs_on(kind));
  return times_.contains(kind) ? kind : "";
}

std::vector<std::string> Profile::kinds() const {
  std::vector<std::string> kinds;
  for (const auto& [kind, times] : times_) kinds.push_back(kind);
  return kinds;
}

BatchBounds Profile::batch(const std::string& kind) const {
  const StepTimes& there = times(kind);
  return {.initial = initial_batch_,
          .max = max_batch_,
          .atomic_min = there.atomic_min(),
          .atomic_max = there.atomic_max(),
          .accumulation = true};
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
