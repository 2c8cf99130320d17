#include "core/policy/perf_estimate.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/median.h"

namespace adaptdl {
namespace {

// Step times are homogeneous in these parameters, so throughput becomes `speed` times as large.
PerfParams scaled(PerfParams perf, double speed) {
  for (double* time :
       {&perf.alpha_c, &perf.beta_c, &perf.alpha_n, &perf.beta_n, &perf.alpha_r, &perf.beta_r}) {
    *time /= speed;
  }
  return perf;
}

const KindHints* known_on(const JobHints& hints, const std::string& kind) {
  const auto found = hints.kinds.find(kind);
  return found == hints.kinds.end() ? nullptr : &found->second;
}

const PerfParams* measured_on(const JobHints& hints, const std::string& kind) {
  const KindHints* known = known_on(hints, kind);
  return known && known->perf ? &*known->perf : nullptr;
}

}  // namespace

PerfEstimate::PerfEstimate(const Snapshot& snapshot, const std::vector<std::string>& kinds)
    : kinds_(kinds), speed_(kinds.size() * kinds.size(), 1) {
  std::vector<std::vector<double>> ratios(speed_.size());
  for (const JobSnapshot& job : snapshot.jobs) {
    if (!job.hints.batch) continue;
    const auto atomic = static_cast<double>(job.hints.batch->initial);
    for (size_t a = 0; a < kinds.size(); ++a) {
      const PerfParams* from = measured_on(job.hints, kinds[a]);
      if (!from) continue;
      for (size_t b = 0; b < kinds.size(); ++b) {
        const PerfParams* to = measured_on(job.hints, kinds[b]);
        if (!to) continue;
        const double ratio = step_time(*from, 1, 1, atomic, 0) / step_time(*to, 1, 1, atomic, 0);
        // Ratios outside this range are measurement errors.
        if (ratio > 1e-3 && ratio < 1e3) ratios[a * kinds.size() + b].push_back(ratio);
      }
    }
  }
  for (size_t i = 0; i < ratios.size(); ++i) {
    if (!ratios[i].empty()) speed_[i] = lower_median(std::move(ratios[i]));
  }
}

double PerfEstimate::ratio(const JobHints& hints, size_t from, size_t to) const {
  const KindHints *a = known_on(hints, kinds_[from]), *b = known_on(hints, kinds_[to]);
  if (a && b && a->speed && b->speed) return *b->speed / *a->speed;
  return speed_[from * kinds_.size() + to];
}

PerfEstimate::Source PerfEstimate::source(const JobHints& hints, size_t kind) const {
  if (const PerfParams* measured = measured_on(hints, kinds_[kind])) return {*measured, kind};
  for (size_t k = 0; k < kinds_.size(); ++k) {
    if (const PerfParams* other = measured_on(hints, kinds_[k])) {
      return {scaled(*other, ratio(hints, k, kind)), k};
    }
  }
  return {hints.perf, kind};
}

std::optional<PerfParams> PerfEstimate::on(const JobHints& hints, size_t kind) const {
  return source(hints, kind).perf;
}

GoodputTable PerfEstimate::table(const JobHints& hints, size_t kind, double power,
                                 int64_t most) const {
  const auto [perf, measured] = source(hints, kind);
  if (!perf || !hints.batch) {
    const KindHints* known = known_on(hints, kinds_[kind]);
    return GoodputTable(known && known->speed ? *known->speed : speed_[kind], power);
  }
  const KindHints* known = known_on(hints, kinds_[measured]);
  BatchBounds bounds = known ? bounds_on(*hints.batch, *known) : *hints.batch;
  if (most > 0) bounds.max = std::clamp(most, bounds.initial, bounds.max);
  return {GoodputModel(*perf, hints.grad.value_or(GradParams{}), bounds.initial), bounds};
}

}  // namespace adaptdl
