#include "runtime/session/measuring.h"

#include <algorithm>
#include <cmath>

#include "runtime/profile/batch_chooser.h"

namespace adaptdl {
namespace {

// Statistics may cost this share of the training time (statistics_every = 0).
constexpr double kMeasureBudget = 0.004;
constexpr int64_t kMeasureAlways =
    20;  // the first steps of a batch, on which its next change waits
constexpr int64_t kMeasureAtLeast = 200;
// The averages are to be of so many measurements or more.
constexpr double kMeasurements = 50;
// A lone replica whose batch adapts computes some steps in halves, whose difference is noise alone.
// That costs a pass's fixed time, so it does so in the first steps of a batch, on which the next
// change waits, and seldom later. Between them it compares successive gradients, which also differ
// because parameters have changed: by little where the noise is large beside the batch.
constexpr int64_t kFirstHalves = 2 * (BatchChooser::kEnough + 2), kHalvesApart = 64;
constexpr int64_t kDifferencesApart = 4;
// Several replicas have several gradients of each step. They compute some of a run's first steps in
// halves, so that the fixed time of a pass is known.
constexpr int64_t kTimedHalves = 16;

bool can_halve(const TrainingSpec& spec, const Progress& progress) {
  return progress.batch.micro_steps == 1 && progress.batch.atomic >= kSmallestHalved &&
         measures_halves_alone(spec);
}

}  // namespace

bool measures_halves_alone(const TrainingSpec& spec) {
  // Halves of a batch have no state to go on with.
  return spec.batch.adaptive && spec.batch.accumulation && !spec.data.continuous &&
         spec.statistics == TrainingSpec::Averaging::recent;
}

bool in_halves(const TrainingSpec& spec, const Progress& progress, int replicas, int64_t step) {
  if (!can_halve(spec, progress)) return false;
  if (replicas > 1) return step <= kTimedHalves && step % 2 == 0;
  return step - progress.batch_since <= kFirstHalves ? step % 2 == 0 : step % kHalvesApart == 0;
}

bool measures(const TrainingSpec& spec, const Progress& progress, int replicas, int64_t step,
              const MeasureCosts& costs) {
  if (spec.deterministic) return false;
  const bool alone = replicas == 1 && can_halve(spec, progress);
  // Steps in halves do not tell how long a whole one takes, so others come between them.
  if (spec.statistics_every > 0) {
    return step % std::max(spec.statistics_every, alone ? 2 : 1) == 0;
  }
  if (in_halves(spec, progress, replicas, step)) return true;
  const int64_t age = step - progress.batch_since;
  if (alone && age <= kFirstHalves) return false;
  if (!alone && (age <= kMeasureAlways || costs.step_s <= 0)) return true;
  // A window of w iterations includes 2 w / interval measurements, as they fade away.
  const auto sparse = static_cast<int64_t>(2 * progress.statistics.window() / kMeasurements);
  const auto cheap =
      costs.step_s > 0
          ? static_cast<int64_t>(std::ceil(costs.measure_s / (kMeasureBudget * costs.step_s)))
          : 1;
  const int64_t most = std::clamp<int64_t>(sparse, 1, kMeasureAtLeast);
  const int64_t apart = std::clamp<int64_t>(cheap, 1, most);
  return step % (alone ? std::max(apart, kDifferencesApart) : apart) == 0;
}

}  // namespace adaptdl
