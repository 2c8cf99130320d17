#include "core/policy/perf_estimate.h"

#include <algorithm>
#include <cmath>

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

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

PerfEstimate::PerfEstimate(const Snapshot& snapshot, const std::vector<std::string>& kinds)
    : kinds_(kinds), speed_(kinds.size() * kinds.size(), 1) {
  std::vector<std::vector<double>> ratios(speed_.size());
  for (const JobSnapshot& job : snapshot.jobs) {
    if (!job.hints.batch) continue;
    const auto atomic = static_cast<double>(job.hints.batch->initial);
    for (size_t a = 0; a < kinds.size(); ++a) {
      const auto from = job.hints.perf_by_kind.find(kinds[a]);
      if (from == job.hints.perf_by_kind.end()) continue;
      for (size_t b = 0; b < kinds.size(); ++b) {
        const auto to = job.hints.perf_by_kind.find(kinds[b]);
        if (to == job.hints.perf_by_kind.end()) continue;
        const double ratio =
            step_time(from->second, 1, 1, atomic, 0) / step_time(to->second, 1, 1, atomic, 0);
        // Ratios outside this range are measurement errors.
        if (ratio > 1e-3 && ratio < 1e3) ratios[a * kinds.size() + b].push_back(ratio);
      }
    }
  }
  for (size_t i = 0; i < ratios.size(); ++i) {
    if (!ratios[i].empty()) speed_[i] = median(ratios[i]);
  }
}

std::optional<PerfParams> PerfEstimate::on(const JobHints& hints, size_t kind) const {
  const auto measured = hints.perf_by_kind.find(kinds_[kind]);
  if (measured != hints.perf_by_kind.end()) return measured->second;
  for (size_t k = 0; k < kinds_.size(); ++k) {
    const auto other = hints.perf_by_kind.find(kinds_[k]);
    if (other != hints.perf_by_kind.end()) {
      return scaled(other->second, speed_[k * kinds_.size() + kind]);
    }
  }
  return hints.perf;
}

}  // namespace adaptdl
