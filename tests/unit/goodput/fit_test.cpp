#include "core/goodput/fit.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <random>
#include <time.h>
#include <vector>

#include "core/base/error.h"
#include "core/goodput/goodput.h"

namespace adaptdl {
namespace {

constexpr double kLowest = 1e-8;
using Observations = std::vector<PerfObservation>;

PerfObservation observe(const PerfParams& perf, int nodes, int replicas, double atomic) {
  return {nodes, replicas, atomic, accum_time(perf, atomic),
          optim_time(perf, nodes, replicas, atomic)};
}

PerfParams random_perf(std::mt19937_64& engine, double most_gamma) {
  const auto pick = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution<>(std::log(low), std::log(high))(engine));
  };
  return {pick(1e-3, 0.2),
          pick(1e-4, 1e-2),
          pick(0.05, 0.5),
          pick(1e-4, 1e-2),
          pick(1e-2, 0.1),
          pick(1e-4, 2e-3),
          std::uniform_real_distribution<>(1, most_gamma)(engine)};
}

Observations spread(const PerfParams& perf) {
  Observations all;
  for (const double atomic : {8, 32, 64, 128, 256}) {
    for (const auto& [nodes, replicas] :
         {std::pair{1, 1}, {1, 2}, {1, 4}, {2, 4}, {2, 8}, {4, 16}}) {
      all.push_back(observe(perf, nodes, replicas, atomic));
    }
  }
  return all;
}

const PerfParams kTruth{0.02, 0.0005, 0.1, 0.001, 0.03, 0.0008, 1.5};

TEST_CASE("step times without noise give their parameters back") {
  std::mt19937_64 engine(11);
  for (int i = 0; i < 40; ++i) {
    const PerfParams truth = random_perf(engine, 2.5);
    const Observations seen = spread(truth);
    const PerfParams fitted = fit_perf_params(seen);
    CHECK(fit_objective(fitted, seen) <= fit_objective(truth, seen) + 1e-6);
    for (const auto& o : seen) {
      const double predicted = optim_time(fitted, o.nodes, o.replicas, o.atomic);
      CHECK(predicted == doctest::Approx(o.optim_time).epsilon(0.02));
    }
    CHECK(fitted.alpha_c == doctest::Approx(truth.alpha_c).epsilon(0.02));
    CHECK(fitted.beta_c == doctest::Approx(truth.beta_c).epsilon(0.02));
  }
}

TEST_CASE("with noise the fit explains the data better than the truth does") {
  std::mt19937_64 engine(12);
  for (const double noise : {0.02, 0.2}) {
    std::normal_distribution<> disturb(0, noise);
    for (int i = 0; i < 60; ++i) {
      const PerfParams truth = random_perf(engine, 8);
      Observations seen = spread(truth);
      for (auto& o : seen) {
        o.accum_time *= std::exp(disturb(engine));
        o.optim_time *= std::exp(disturb(engine));
      }
      const PerfParams fitted = fit_perf_params(seen);
      CHECK(fit_objective(fitted, seen) <= fit_objective(truth, seen) + 1e-6);
      CHECK(fitted.gamma >= 1);
      CHECK(fitted.gamma <= 10);
    }
  }
}

TEST_CASE("rule: one atomic batch splits its time evenly between constant and slope") {
  for (const int replicas : {1, 2, 4}) {
    const Observations seen = {observe(kTruth, 1, 1, 64), observe(kTruth, 1, replicas, 64)};
    const double mean = (seen[0].accum_time + seen[1].accum_time) / 2;
    const PerfParams fitted = fit_perf_params(seen);
    CHECK(fitted.alpha_c == doctest::Approx(mean / 2));
    CHECK(fitted.beta_c * 64 == doctest::Approx(mean / 2).epsilon(0.05));
  }
}

TEST_CASE("rule: without several nodes their network is a little slower than one node's") {
  Observations seen;
  for (const double atomic : {16, 64, 128}) {
    for (const int replicas : {1, 2, 3, 4}) seen.push_back(observe(kTruth, 1, replicas, atomic));
  }
  const PerfParams fitted = fit_perf_params(seen);
  CHECK(fitted.alpha_r > 1e-3);
  CHECK(fitted.alpha_n == 1.1 * fitted.alpha_r);
  CHECK(fitted.beta_n == std::max(kLowest, 1.1 * fitted.beta_r));
}

TEST_CASE("rule: without several replicas on one node their network is free") {
  Observations seen;
  for (const double atomic : {16, 64, 128}) {
    seen.push_back(observe(kTruth, 1, 1, atomic));
    seen.push_back(observe(kTruth, 2, 2, atomic));
    seen.push_back(observe(kTruth, 2, 6, atomic));
  }
  const PerfParams fitted = fit_perf_params(seen);
  CHECK(fitted.alpha_r == kLowest);
  CHECK(fitted.beta_r == kLowest);
  CHECK(fitted.alpha_n > 1e-3);
}

TEST_CASE("rule: without more than two replicas retrogression stays at the bound") {
  Observations seen;
  for (const double atomic : {16, 64, 128}) {
    seen.push_back(observe(kTruth, 1, 1, atomic));
    seen.push_back(observe(kTruth, 1, 2, atomic));
    seen.push_back(observe(kTruth, 2, 2, atomic));
  }
  PerfParams fitted = fit_perf_params(seen);
  CHECK(fitted.beta_n == kLowest);
  CHECK(fitted.beta_r == kLowest);
  CHECK(fitted.alpha_r > 1e-3);
  CHECK(fitted.alpha_n > 1e-3);

  // Only one node as well: both rules, and the second decides what is published.
  std::erase_if(seen, [](const auto& o) { return o.nodes > 1; });
  fitted = fit_perf_params(seen);
  CHECK(fitted.beta_r == kLowest);
  CHECK(fitted.beta_n == 1.1 * kLowest);
}

TEST_CASE("rule: one lone replica predicts perfect scaling") {
  const PerfParams fitted = fit_perf_params(Observations{observe(kTruth, 1, 1, 64)});
  CHECK(fitted.alpha_r == kLowest);
  CHECK(fitted.alpha_n == 1.1 * kLowest);
  const GoodputModel model(fitted, {1, 1}, 64);
  CHECK(model.throughput(1, 8, 64, 0) == doctest::Approx(8 * model.throughput(1, 1, 64, 0)));
}

TEST_CASE("nothing near the fitted parameters is better") {
  std::mt19937_64 engine(13);
  std::normal_distribution<> disturb(0, 0.1);
  const PerfParams truth{0.05, 0.002, 0.2, 0.01, 0.05, 0.002, 6};
  Observations seen = spread(truth);
  for (auto& o : seen) o.optim_time *= std::exp(disturb(engine));
  const PerfParams fitted = fit_perf_params(seen);
  const double reached = fit_objective(fitted, seen);
  std::normal_distribution<> step(0, 0.05);
  for (int i = 0; i < 5000; ++i) {
    PerfParams other = fitted;
    for (double* p : {&other.alpha_c, &other.beta_c, &other.alpha_n, &other.beta_n, &other.alpha_r,
                      &other.beta_r}) {
      *p = std::max(kLowest, *p * std::exp(step(engine)));
    }
    other.gamma = std::clamp(other.gamma + step(engine), 1.0, 10.0);
    CHECK(fit_objective(other, seen) >= reached - 1e-5);
  }
}

TEST_CASE("absurd but legal times give finite parameters") {
  for (const double time : {1e-12, 1e-3, 1e6}) {
    for (const double atomic : {1.0, 1e7}) {
      const PerfParams fitted = fit_perf_params(
          Observations{{1, 1, atomic, time, time}, {2, 300, atomic * 2, time, time * 1e4}});
      for (const double value : {fitted.alpha_c, fitted.beta_c, fitted.alpha_n, fitted.beta_n,
                                 fitted.alpha_r, fitted.beta_r}) {
        CHECK(std::isfinite(value));
        CHECK(value >= kLowest);
      }
    }
  }
}

TEST_CASE("what cannot be a step time is refused") {
  CHECK_THROWS_AS(fit_perf_params({}), Error);
  for (const PerfObservation& bad : {PerfObservation{1, 1, 8, 0, 1},
                                     {1, 1, 8, 1, NAN},
                                     {1, 1, 0, 1, 1},
                                     {2, 1, 8, 1, 1},
                                     {0, 1, 8, 1, 1},
                                     {1, 1, 8, HUGE_VAL, 1}}) {
    CHECK_THROWS_AS(fit_perf_params(Observations{bad}), Error);
  }
}

double cpu_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

TEST_CASE("fitting 50 observations takes under a millisecond") {
  std::mt19937_64 engine(14);
  std::normal_distribution<> disturb(0, 0.05);
  std::vector<double> times;
  for (int i = 0; i < 40; ++i) {
    const PerfParams truth = random_perf(engine, 6);
    Observations seen = spread(truth);
    for (int extra = 0; extra < 20; ++extra) seen.push_back(observe(truth, 1, 3, 8 + extra));
    for (auto& o : seen) o.optim_time *= std::exp(disturb(engine));
    const double begun = cpu_us();
    fit_perf_params(seen);
    times.push_back(cpu_us() - begun);
  }
  std::sort(times.begin(), times.end());
  MESSAGE("fit of 50 observations: median " << times[20] << " us, worst " << times.back() << " us");
  CHECK(times[20] < 20000);  // 1000 is the target; this leaves room for sanitizers and load
}

}  // namespace
}  // namespace adaptdl
