#include "core/kube/retry.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace adaptdl::kube {
namespace {

constexpr double kFirst = 0.1, kLongest = 5.0;

double doubled(double first, double longest, int attempt, double jitter) {
  const double base = first * std::exp2(std::min(attempt - 1, 20));
  return std::min(base, longest) * (1.0 + jitter / 2);
}

}  // namespace

std::optional<Seconds> retry_delay(const Outcome& outcome, bool repeatable, int attempt,
                                   Seconds elapsed, Seconds budget, double jitter) {
  const int code = outcome.status.code;
  const bool refused = outcome.answered ? code == 429 : !outcome.arrived;
  const bool failed =
      outcome.answered ? code == 500 || code == 502 || code == 503 || code == 504 : outcome.arrived;
  if (!refused && !(failed && repeatable)) return std::nullopt;
  Seconds delay(doubled(kFirst, kLongest, attempt, jitter));
  if (outcome.answered) delay = std::max(delay, outcome.status.retry_after);
  if (elapsed + delay > budget) return std::nullopt;
  return delay;
}

Seconds reconnect_delay(int attempt, double jitter) {
  return Seconds(doubled(0.8, 30.0, attempt, jitter));
}

uint64_t jitter_seed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace adaptdl::kube
