#include "runtime/gns/statistics.h"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <vector>

#include "core/base/error.h"
#include "runtime/gns/scaling_rule.h"

namespace adaptdl::gns {
namespace {

using Samples = std::vector<GroupSample>;
using Averaging = GradientStatistics::Averaging;

// Gradients of `dimension` numbers around `mean` with variance `var` in all, at the initial batch;
// a sample of `share` initial batches has var / share.
struct Noise {
  std::mt19937_64 engine{31};
  int dimension = 40;
  double mean = 1, var = 20;

  std::vector<double> gradient(double share) {
    std::normal_distribution<> pick(mean / std::sqrt(dimension),
                                    std::sqrt(var / share / dimension));
    std::vector<double> result(dimension);
    for (double& value : result) value = pick(engine);
    return result;
  }
  static double dot(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  }
  // One step with a sample of each of these shares.
  GroupSample step(const std::vector<double>& shares) {
    const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
    std::vector<double> average(dimension);
    GroupSample sample;
    for (const double share : shares) {
      const auto g = gradient(share);
      sample.local += dot(g, g) * share / all;
      for (int d = 0; d < dimension; ++d) average[d] += g[d] * share / all;
    }
    sample.total = dot(average, average);
    return sample;
  }
  GroupSample step(int count, double share) {
    return step(std::vector<double>(static_cast<size_t>(count), share));
  }
};

TEST_CASE("the estimates find the mean and the noise, whatever the count and the batch") {
  for (const int count : {2, 3, 8}) {
    for (const double share : {0.5, 1.0, 2.0}) {
      Noise noise;
      GradientStatistics statistics(1, Averaging::adaptdl);
      for (int t = 0; t < 4000; ++t)
        statistics.update(count, count * share, {noise.step(count, share)});
      CHECK(statistics.sqr() == doctest::Approx(1).epsilon(0.3));
      CHECK(statistics.var() == doctest::Approx(20).epsilon(0.1));
      CHECK(!statistics.biased());
    }
  }
}

TEST_CASE("the estimates stay unbiased where the samples of a step differ in size") {
  Noise noise;
  GradientStatistics statistics(1, Averaging::adaptdl);
  for (int t = 0; t < 20000; ++t) statistics.update(3, 1.75, {noise.step({1.0, 0.5, 0.25})});
  CHECK(statistics.sqr() == doctest::Approx(1).epsilon(0.3));
  CHECK(statistics.var() == doctest::Approx(20).epsilon(0.1));
}

TEST_CASE("one gradient a step: differences of successive ones find them too") {
  Noise noise;
  GradientStatistics statistics(1, Averaging::adaptdl);
  auto before = noise.gradient(1);
  for (int t = 0; t < 6000; ++t) {
    const auto now = noise.gradient(1);
    statistics.update(
        1, 1, {{0, Noise::dot(now, now), Noise::dot(before, before), Noise::dot(now, before)}});
    before = now;
  }
  CHECK(statistics.biased());
  CHECK(statistics.sqr() == doctest::Approx(1).epsilon(0.3));
  CHECK(statistics.var() == doctest::Approx(20).epsilon(0.1));
}

TEST_CASE("the first gradient of a lone replica says nothing") {
  GradientStatistics statistics(2, Averaging::adaptdl);
  CHECK(!statistics.update(1, 1, Samples{{0, 4, 0, 0}, {0, 4, 0, 0}}));
  CHECK(statistics.empty());
  CHECK(statistics.sqr() == 2);  // one for each group
  CHECK(statistics.var() == 2e-6);
  CHECK(statistics.gain(8) == 1);
  CHECK(statistics.gain(8, 1) == 1);
  // A shorter step is less progress all the same.
  CHECK(statistics.gain(414.0 / 1024) == 414.0 / 1024);
  CHECK(statistics.gain(414.0 / 1024, 1) == 1);
  CHECK(statistics.raw(0) == GradParams{1, 0});
}

TEST_CASE("unbiased samples replace biased averages; biased ones join what is there") {
  GradientStatistics statistics(1, Averaging::adaptdl);
  CHECK(statistics.update(1, 1, Samples{{0, 100, 100, 0}}));
  CHECK(statistics.biased());
  CHECK(statistics.var() == doctest::Approx(100));
  CHECK(statistics.update(2, 1, Samples{{3, 2}}));
  CHECK(!statistics.biased());
  CHECK(statistics.sqr() == doctest::Approx(1));  // 2 * 2 - 3: the hundred is gone
  CHECK(statistics.var() == doctest::Approx(1));
  CHECK(statistics.update(1, 1, Samples{{0, 100, 100, 0}}));
  CHECK(statistics.biased());
  CHECK(statistics.var() > 1);
}

TEST_CASE("samples that are not finite are left out") {
  GradientStatistics statistics(2, Averaging::adaptdl);
  statistics.update(2, 1, Samples{{3, 2}, {5, 4}});
  const auto before = statistics.to_json();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double bad : {nan, HUGE_VAL, -HUGE_VAL}) {
    CHECK(!statistics.update(2, 1, Samples{{3, 2}, {bad, 4}}));
    CHECK(!statistics.update(2, 1, Samples{{3, bad}, {5, 4}}));
    CHECK(!statistics.update(1, 1, Samples{{3, 2, bad, 1}, {5, 4, 1, 1}}));
    CHECK(!statistics.update(1, 1, Samples{{3, 2, 1, 1}, {5, 4, 1, bad}}));
  }
  CHECK(!statistics.update(4, 1, Samples{{3, 1e308}, {5, 4}}));  // overflows on the way
  CHECK(statistics.to_json() == before);
}

TEST_CASE("one sample for n steps weighs as much as n samples") {
  GradientStatistics each(1, Averaging::adaptdl), sampled(1, Averaging::adaptdl);
  for (int block = 0; block < 50; ++block) {
    const GroupSample sample{3.0 + block % 5, 2.0};
    for (int t = 0; t < 8; ++t) each.update(2, 2, {sample});
    sampled.update(2, 2, {sample}, 8);
  }
  CHECK(sampled.raw(0).sqr == doctest::Approx(each.raw(0).sqr).epsilon(1e-9));
  CHECK(sampled.raw(0).var == doctest::Approx(each.raw(0).var).epsilon(1e-9));
}

TEST_CASE("sampling every n-th step stays unbiased") {
  for (const int every : {1, 7}) {
    Noise noise;
    GradientStatistics statistics(1, Averaging::adaptdl);
    for (int t = 0; t < 14000; ++t) {
      const auto sample = noise.step(2, 1);
      if (t % every == 0) statistics.update(2, 2, {sample}, every);
    }
    CHECK(statistics.var() == doctest::Approx(20).epsilon(0.15));
    CHECK(statistics.sqr() == doctest::Approx(1).epsilon(0.5));
  }
}

TEST_CASE("gains lie between 1 and the scale for any samples") {
  std::mt19937_64 engine(32);
  std::normal_distribution<> any(0, 10);
  for (int i = 0; i < 300; ++i) {
    GradientStatistics statistics(3, Averaging::adaptdl);
    for (int t = 0; t < 5; ++t) {
      Samples samples(3);
      for (auto& s : samples) s = {std::abs(any(engine)), std::abs(any(engine)), 0, 0};
      statistics.update(2 + t, 1.5, samples);
    }
    for (const double scale : {1.0, 1.5, 4.0, 100.0}) {
      for (int group = -1; group < 3; ++group) {
        const double value = group < 0 ? statistics.gain(scale) : statistics.gain(scale, group);
        CHECK(value >= 1 - 1e-12);
        CHECK(value <= scale * (1 + 1e-12));
      }
    }
  }
}

TEST_CASE("progress goes by the estimate, rates by less than its standard error allows") {
  Noise noise;
  GradientStatistics statistics(1, Averaging::recent);
  for (int t = 0; t < 100; ++t) statistics.update(2, 1, {noise.step(2, 1)});
  CHECK(statistics.gain(8) == adaptdl::gain(statistics.published(), 8));
  CHECK(statistics.gain(8, 0) == adaptdl::gain(statistics.cautious(), 8));
  CHECK(statistics.gain(8, 0) < statistics.gain(8));
}

TEST_CASE("published values sum what is positive; raw ones may be negative") {
  GradientStatistics statistics(2, Averaging::adaptdl);
  statistics.update(2, 2, Samples{{10, 1}, {1, 3}});
  CHECK(statistics.raw(0).sqr == doctest::Approx(-8));
  CHECK(statistics.raw(0).var == doctest::Approx(18));
  CHECK(statistics.raw(1).sqr == doctest::Approx(5));
  CHECK(statistics.raw(1).var == doctest::Approx(-4));
  CHECK(statistics.sqr() == doctest::Approx(5));
  CHECK(statistics.var() == doctest::Approx(18 + 1e-6));
  CHECK(statistics.gain(4, 0) == doctest::Approx(4));  // all noise
}

TEST_CASE("the state reads back to the last bit, and nonsense is refused") {
  Noise noise;
  GradientStatistics statistics(2, Averaging::adaptdl);
  for (int t = 0; t < 20; ++t) statistics.update(3, 1.7, {noise.step(3, 1), noise.step(3, 2)});
  auto copy = GradientStatistics::from_json(nlohmann::json::parse(statistics.to_json().dump()));
  CHECK(copy.to_json() == statistics.to_json());
  const Samples next{noise.step(3, 1), noise.step(3, 1)};
  copy.update(3, 1.7, next);
  statistics.update(3, 1.7, next);
  CHECK(copy.sqr() == statistics.sqr());
  CHECK(copy.var() == statistics.var());
  CHECK(
      GradientStatistics::from_json(GradientStatistics(3, Averaging::adaptdl).to_json()).groups() ==
      3);

  for (const char* bad :
       {"3", "{}", R"({"groups": [[1]], "weight": 0.5, "samples": 3, "biased": false})",
        R"({"groups": [[1, null]], "weight": 0.5, "samples": 3, "biased": false})",
        R"({"groups": [[1, 2]], "weight": 2, "samples": 3, "biased": false})",
        R"({"groups": [[1, 2]], "weight": 0.5, "samples": 3, "biased": 1})"}) {
    CHECK_THROWS_AS(GradientStatistics::from_json(nlohmann::json::parse(bad)), Error);
  }
}

TEST_CASE("a step that is cut short has the rate of its samples, but of no less than one batch") {
  CHECK(rate_scale(8, 8) == 8);
  CHECK(rate_scale(8, 3) == 3);
  CHECK(rate_scale(8, 0.2) == 1);
  CHECK(rate_scale(1, 0.2) == 1);
  CHECK(rate_scale(0.5, 0.2) == 0.5);  // the batch that was chosen has fewer samples
}

TEST_CASE("scaling rules") {
  using Rule = TrainingSpec::ScalingRule;
  RuleInput input;
  input.scale = 4;
  input.gain = 2.25;
  CHECK(lr_factor(Rule::adascale, input) == 2.25);
  CHECK(lr_factor(Rule::adamscale, input) == 1.5);
  CHECK(lr_factor(Rule::linear, input) == 4);
  CHECK(lr_factor(Rule::sqrt, input) == 2);
  CHECK(lr_factor(Rule::legw, input) == 2);  // no warm-up
  input.warmup_epochs = 5;
  input.epoch_iterations = 10;  // warm-up takes 5 * 4 * 10 iterations
  input.progress = 50;
  CHECK(lr_factor(Rule::legw, input) == doctest::Approx(0.5));
  input.progress = 200;
  CHECK(lr_factor(Rule::legw, input) == 2);
  input.progress = 1e9;
  CHECK(lr_factor(Rule::legw, input) == 2);
  // At the initial batch nothing is scaled.
  input = {};
  for (const auto rule : {Rule::adascale, Rule::adamscale, Rule::linear, Rule::sqrt, Rule::legw}) {
    CHECK(lr_factor(rule, input) == 1);
  }
}

}  // namespace
}  // namespace adaptdl::gns
