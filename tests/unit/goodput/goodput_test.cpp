#include "core/goodput/goodput.h"

#include <chrono>
#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "core/base/error.h"

namespace adaptdl {
namespace {

struct Random {
  std::mt19937_64 engine;
  explicit Random(uint64_t seed) : engine(seed) {}
  double log_uniform(double low, double high) {
    return std::exp(std::uniform_real_distribution<>(std::log(low), std::log(high))(engine));
  }
  int integer(int low, int high) { return std::uniform_int_distribution<>(low, high)(engine); }
  PerfParams perf() {
    return {log_uniform(1e-3, 0.2),
            log_uniform(1e-4, 1e-2),
            log_uniform(1e-2, 0.5),
            log_uniform(1e-5, 1e-2),
            log_uniform(1e-3, 0.1),
            log_uniform(1e-5, 1e-2),
            std::uniform_real_distribution<>(1, 10)(engine)};
  }
  GradParams grad() { return {log_uniform(1e-4, 10), log_uniform(1e-4, 1e3)}; }
};

TEST_CASE("gain lies between 1 and the scale, and grows with it") {
  Random random(1);
  for (int i = 0; i < 2000; ++i) {
    const GradParams grad = random.grad();
    double last = 1;
    for (double scale = 1; scale < 1000; scale *= 1.7) {
      const double value = gain(grad, scale);
      CHECK(value >= 1 - 1e-12);
      CHECK(value <= scale * (1 + 1e-12));
      CHECK(value >= last * (1 - 1e-12));
      last = value;
    }
  }
  CHECK(gain({0, 0}, 8) == 1);  // nothing is known
  CHECK(gain({0, 3}, 8) == doctest::Approx(8));
  CHECK(gain({3, 0}, 8) == doctest::Approx(1));
}

TEST_CASE("the optimizer step lies between no overlap and full overlap") {
  Random random(2);
  for (int i = 0; i < 2000; ++i) {
    PerfParams perf = random.perf();
    const int replicas = random.integer(1, 32), nodes = random.integer(1, replicas);
    const double atomic = random.integer(1, 512);
    const double compute = accum_time(perf, atomic), network = network_time(perf, nodes, replicas);
    const double step = optim_time(perf, nodes, replicas, atomic);
    CHECK(step >= std::max(compute, network) * (1 - 1e-12));
    CHECK(step <= (compute + network) * (1 + 1e-12));
    CHECK(step_time(perf, nodes, replicas, atomic, 3) == doctest::Approx(3 * compute + step));
  }
}

TEST_CASE("the network costs nothing alone, and more replicas never make a step shorter") {
  const PerfParams perf{0.01, 0.001, 0.2, 0.01, 0.05, 0.002, 2.5};
  CHECK(network_time(perf, 1, 1) == doctest::Approx(1e-8));
  CHECK(network_time(perf, 1, 2) == doctest::Approx(0.05));
  CHECK(network_time(perf, 1, 5) == doctest::Approx(0.056));
  CHECK(network_time(perf, 2, 2) == doctest::Approx(0.2));
  CHECK(network_time(perf, 3, 4) == doctest::Approx(0.22));
  for (int k = 1; k < 20; ++k) CHECK(optim_time(perf, 1, k, 32) <= optim_time(perf, 1, k + 1, 32));
}

TEST_CASE("goodput never exceeds throughput, and efficiency falls with the batch") {
  Random random(3);
  for (int i = 0; i < 1000; ++i) {
    const GoodputModel model(random.perf(), random.grad(), 128);
    double last = 1 + 1e-12;
    for (const int atomic : {128, 200, 400, 1000}) {
      const double efficiency = model.efficiency(atomic);
      CHECK(efficiency > 0);
      CHECK(efficiency <= last + 1e-12);
      last = efficiency;
      CHECK(model.evaluate(1, 1, atomic, 0) <= model.throughput(1, 1, atomic, 0) * (1 + 1e-12));
      CHECK(model.throughput(1, 1, 2.0 * atomic, 0) >= model.throughput(1, 1, atomic, 0));
    }
  }
  const GoodputModel model(random.perf(), random.grad(), 128);
  CHECK(model.evaluate(0, 0, 32, 0) == 0);
  CHECK(model.throughput(0, 0, 32, 0) == 0);
}

TEST_CASE("the chosen batch respects its bounds and is as good as any that was allowed") {
  Random random(4);
  for (int i = 0; i < 2000; ++i) {
    const GoodputModel model(random.perf(), random.grad(), 128);
    BatchBounds bounds{128, random.integer(128, 8192), random.integer(1, 32),
                       random.integer(128, 1024), random.integer(0, 1) == 1};
    const int replicas = random.integer(1, 16), nodes = random.integer(1, replicas);
    const BatchChoice best = model.optimize(nodes, replicas, bounds);
    CHECK(best.atomic >= bounds.atomic_min);
    CHECK(best.atomic <= bounds.atomic_max);
    CHECK(best.goodput ==
          doctest::Approx(model.evaluate(nodes, replicas, double(best.atomic), best.accum_steps)));
    const int64_t total = replicas * best.atomic * (best.accum_steps + 1);
    if (bounds.accumulation) {
      CHECK(total >= bounds.initial);
      // One gradient per step cannot tell the noise of a larger batch.
      if (replicas == 1 && total > bounds.initial) CHECK(best.accum_steps >= 1);
    } else {
      CHECK(best.accum_steps == 0);
      if (replicas == 1) CHECK(best.atomic == std::max<int64_t>(128, bounds.atomic_min));
    }
    const int64_t rounding = int64_t{replicas} * (best.accum_steps + 1);
    CHECK(total < std::max(bounds.max, bounds.atomic_min * replicas) + rounding);
    // A larger allowance cannot make it worse by more than the grid's coarseness.
    bounds.max *= 2;
    CHECK(model.optimize(nodes, replicas, bounds).goodput >= 0.95 * best.goodput);
  }
}

TEST_CASE("a placement too large for the largest batch gets the smallest atomic batch") {
  Random random(5);
  const GoodputModel model(random.perf(), random.grad(), 64);
  const BatchChoice choice = model.optimize(1, 16, {64, 128, 32, 64, true});
  CHECK(choice.atomic == 32);
  CHECK(choice.accum_steps == 0);
  CHECK(choice.goodput > 0);
}

TEST_CASE("bounds that ask for absurdly many steps of accumulation overflow nothing") {
  // Large batches pay here: each step is nearly all network, and nearly all noise.
  const GoodputModel model({0, 0, 1000, 0, 1000, 0, 1}, {0, 1}, 1);
  const BatchChoice choice = model.optimize(1, 2, {1, 1'000'000'000'000, 1, 1, true});
  CHECK(choice.accum_steps > 0);
  CHECK(choice.accum_steps <= kMostAccumulation);
  CHECK(choice.goodput > 0);
}

TEST_CASE("a bound far above the batch is no bound: one pass, whatever it is") {
  const GoodputModel model({0.1, 0.01, 0.2, 0.01, 0.1, 0.01, 1.5}, {1, 1}, 8);
  for (const int64_t atomic_max : {int64_t{64}, int64_t{1'000'000'000'000}}) {
    const BatchChoice choice = model.optimize(1, 2, {8, 32, 1, atomic_max, true});
    CHECK(choice == model.optimize(1, 2, {8, 32, 1, 32, true}));
  }
}

TEST_CASE("parameters and bounds that make no sense are refused") {
  const PerfParams good{0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 2};
  PerfParams bad = good;
  bad.beta_r = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(GoodputModel(bad, {1, 1}, 32), Error);
  bad = good;
  bad.gamma = 0.5;
  CHECK_THROWS_AS(GoodputModel(bad, {1, 1}, 32), Error);
  CHECK_THROWS_AS(GoodputModel(good, {-1, 1}, 32), Error);
  CHECK_THROWS_AS(GoodputModel(good, {1, HUGE_VAL}, 32), Error);
  CHECK_THROWS_AS(GoodputModel(good, {1, 1}, 0), Error);
  const GoodputModel model(good, {1, 1}, 32);
  CHECK_THROWS_AS(model.optimize(1, 1, {32, 16, 1, 16, false}), Error);
  CHECK_THROWS_AS(model.optimize(1, 1, {32, 64, 48, 16, false}), Error);
}

TEST_CASE("hints read back as they were written; null is nothing; nonsense names its field") {
  Random random(6);
  for (int i = 0; i < 100; ++i) {
    const PerfParams perf = random.perf();
    const GradParams grad = random.grad();
    const auto text = to_json(perf).dump(), other = to_json(grad).dump();
    CHECK(perf_params_from_json(nlohmann::json::parse(text), "x") == perf);
    CHECK(grad_params_from_json(nlohmann::json::parse(other), "x") == grad);
  }
  CHECK(!perf_params_from_json(nullptr, "x"));
  CHECK(!grad_params_from_json(nullptr, "x"));
  CHECK(to_json(GradParams{1, 2}).dump() == R"({"norm":1.0,"var":2.0})");

  const auto wrong = [](const char* text) {
    CHECK_THROWS_WITH_AS(grad_params_from_json(nlohmann::json::parse(text), "gradParams"),
                         doctest::Contains("var"), Error);
  };
  wrong(R"({"norm": 1})");
  wrong(R"({"norm": 1, "var": null})");
  wrong(R"({"norm": 1, "var": "3"})");
  wrong(R"({"norm": 1, "var": -3})");
  CHECK_THROWS_AS(grad_params_from_json(nlohmann::json::array(), "x"), Error);
  auto perf = to_json(random.perf());
  perf["gamma"] = 11;
  CHECK_THROWS_WITH_AS(perf_params_from_json(perf, "x"), doctest::Contains("gamma"), Error);
}

TEST_CASE("choosing a batch takes microseconds") {
  Random random(7);
  const BatchBounds bounds{128, 8192, 4, 512, true};
  const PerfParams perf = random.perf();
  double sum = 0;
  constexpr int kCalls = 2000;
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) {
    sum += GoodputModel(perf, {1.0 + i, 3.0}, 128).optimize(1, 1 + i % 16, bounds).goodput;
  }
  const double us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begun).count() /
      kCalls;
  MESSAGE("optimize: " << us << " us");
  CHECK(sum > 0);
  CHECK(us < 500);  // 20 is the target; this leaves room for sanitizers and loaded machines
}

}  // namespace
}  // namespace adaptdl
