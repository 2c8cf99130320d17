#include "core/goodput/goodput.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/error.h"

namespace adaptdl {
namespace {

constexpr double kZero = 1e-8;   // stands for zero seconds and zero replicas
constexpr double kRound = 1e-8;  // forgives rounding before a ceil
constexpr int kSamples = 50;

// (a^gamma + b^gamma)^(1/gamma) for a, b > 0, without overflow.
double power_sum(double a, double b, double gamma) {
  const double large = std::max(a, b), small = std::min(a, b);
  return large * std::exp(std::log1p(std::pow(small / large, gamma)) / gamma);
}

void check_bounds(const BatchBounds& bounds, int64_t atomic_max) {
  if (bounds.initial < 1 || bounds.max < bounds.initial || bounds.atomic_min < 1 ||
      atomic_max < bounds.atomic_min) {
    fail(
        "inconsistent batch bounds: initial {}, max {}, atomic {} to {}; they must satisfy "
        "1 <= initial <= max and 1 <= atomic min <= atomic max",
        bounds.initial, bounds.max, bounds.atomic_min, atomic_max);
  }
}

}  // namespace

double accum_time(const PerfParams& perf, double atomic) {
  return perf.alpha_c + perf.beta_c * atomic;
}

double network_time(const PerfParams& perf, int nodes, int replicas) {
  const double beyond_two = std::max(replicas - 2.0, kZero);
  if (nodes > 1) return perf.alpha_n + perf.beta_n * beyond_two;
  if (replicas > 1) return perf.alpha_r + perf.beta_r * beyond_two;
  return kZero;
}

double optim_time(const PerfParams& perf, int nodes, int replicas, double atomic) {
  // Parameters from hints may be exactly zero.
  const double compute = std::max(accum_time(perf, atomic), kZero);
  const double network = std::max(network_time(perf, nodes, replicas), kZero);
  return power_sum(compute, network, perf.gamma);
}

double step_time(const PerfParams& perf, int nodes, int replicas, double atomic, int accum_steps) {
  return accum_steps * accum_time(perf, atomic) + optim_time(perf, nodes, replicas, atomic);
}

GoodputModel::GoodputModel(const PerfParams& perf, const GradParams& grad, int64_t initial_batch)
    : perf_(perf), grad_(grad), initial_batch_(static_cast<double>(initial_batch)) {
  for (const double value : {perf.alpha_c, perf.beta_c, perf.alpha_n, perf.beta_n, perf.alpha_r,
                             perf.beta_r, perf.gamma - 1, grad.sqr, grad.var}) {
    if (!std::isfinite(value) || value < 0) {
      fail("goodput: a parameter is negative or not finite, or gamma is below 1");
    }
  }
  if (initial_batch < 1)
    fail("goodput: the initial batch is {}; it must be at least 1", initial_batch);
}

double GoodputModel::throughput(int nodes, int replicas, double atomic, int accum_steps) const {
  if (replicas <= 0) return 0;
  return replicas * atomic * (accum_steps + 1) /
         step_time(perf_, nodes, replicas, atomic, accum_steps);
}

double GoodputModel::efficiency(double total_batch) const {
  const double scale = total_batch / initial_batch_;
  return gain(grad_, scale) / scale;
}

double GoodputModel::evaluate(int nodes, int replicas, double atomic, int accum_steps) const {
  if (replicas <= 0) return 0;
  return throughput(nodes, replicas, atomic, accum_steps) *
         efficiency(replicas * atomic * (accum_steps + 1));
}

BatchChoice GoodputModel::optimize(int nodes, int replicas, const BatchBounds& bounds) const {
  ADAPTDL_CHECK(1 <= nodes && nodes <= replicas);
  const int64_t atomic_max = bounds.atomic_max > 0 ? bounds.atomic_max : bounds.max;
  check_bounds(bounds, atomic_max);
  const double initial = static_cast<double>(bounds.initial);
  const double low = std::max(initial, static_cast<double>(bounds.atomic_min) * replicas);
  const double high = std::max(low, static_cast<double>(bounds.max));
  const double ratio = std::log(high / low) / (kSamples - 1);

  // No step is shorter than its computation, or than its network time. This bounds the goodput for
  // a tenth of the cost of computing it, and excludes most choices early.
  const double network = network_time(perf_, nodes, replicas);
  const double both = grad_.var + grad_.sqr;
  const double var = both > 0 ? grad_.var / both : 0, sqr = both > 0 ? grad_.sqr / both : 1;
  std::array<BatchChoice, kSamples> choices;  // goodput: the bound
  size_t count = 0, promising = 0;
  for (int i = 0; i < kSamples; ++i) {
    const double total = i == kSamples - 1 ? high : low * std::exp(ratio * i);
    const double local = total / replicas;
    double accum_steps = 0, atomic = initial;
    if (bounds.accumulation) {
      // At least one pass, also if the share is far below atomic_max.
      accum_steps = std::max(std::ceil(local / static_cast<double>(atomic_max) - kRound) - 1, 0.0);
      if (replicas == 1 && local > initial + kRound && !bounds.halves_alone) {
        accum_steps = std::max(accum_steps, 1.0);
      }
      accum_steps = std::min<double>(accum_steps, kMostAccumulation);
      const double share = accum_steps > 0 ? local / (accum_steps + 1) : local;
      atomic = std::ceil(share - kRound);
    } else if (replicas > 1) {
      atomic = std::ceil(local - kRound);
    }
    BatchChoice& choice = choices[count];
    choice.atomic = std::clamp(static_cast<int64_t>(atomic), bounds.atomic_min, atomic_max);
    choice.accum_steps = static_cast<int>(accum_steps);
    if (count > 0 && choice.atomic == choices[count - 1].atomic &&
        choice.accum_steps == choices[count - 1].accum_steps) {
      continue;
    }
    const double m = static_cast<double>(choice.atomic), compute = accum_time(perf_, m);
    const double batch = replicas * m * (choice.accum_steps + 1);
    const double least = choice.accum_steps * compute + std::max({compute, network, kZero});
    // batch / least * efficiency(batch), with one division
    choice.goodput =
        batch * initial_batch_ / (least * (var * initial_batch_ + sqr * batch)) * (1 + kRound);
    if (choice.goodput > choices[promising].goodput) promising = count;
    ++count;
  }
  const auto goodput = [&](const BatchChoice& choice) {
    return evaluate(nodes, replicas, static_cast<double>(choice.atomic), choice.accum_steps);
  };
  const double reached = goodput(choices[promising]);
  BatchChoice best;
  best.goodput = -1;
  for (size_t i = 0; i < count; ++i) {
    if (choices[i].goodput < std::max(reached, best.goodput)) continue;
    choices[i].goodput = i == promising ? reached : goodput(choices[i]);
    if (choices[i].goodput > best.goodput) best = choices[i];
  }
  return best;
}

}  // namespace adaptdl
