#include "runtime/gns/recent_average.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/formats/csv.h"

namespace adaptdl::gns {
namespace {

// Measurements of gradients of 30 numbers, |mean|^2 = phi and trace 1 at the initial batch, all
// multiplied by `magnitude`.
struct Gradients {
  std::mt19937_64 engine{7};
  double phi = 0.1, magnitude = 1;

  GroupMeasurement measure(int count, double scale) {
    constexpr int kNumbers = 30;
    std::normal_distribution<> noise(0, std::sqrt(count / scale / kNumbers));
    const double mean = std::sqrt(phi / kNumbers);
    double square = 0, total = 0;
    for (int d = 0; d < kNumbers; ++d) {
      double sum = 0;
      for (int i = 0; i < count; ++i) {
        const double g = mean + noise(engine);
        square += g * g / count;
        sum += g / count;
      }
      total += sum * sum;
    }
    GroupMeasurement result;
    result.square = magnitude * square;
    result.params = {magnitude * (count * total - square) / (count - 1),
                     magnitude * (square - total) * scale / (count - 1)};
    return result;
  }
};

double phi_of(const RecentAverage& average) {
  return average.group(0).sqr / average.group(0).var;
}

// Steps of two gradient samples at the initial batch.
void add(RecentAverage& average, Gradients& gradients, int steps) {
  for (int i = 0; i < steps; ++i) average.add(2, 1, {gradients.measure(2, 1)}, 1);
}

TEST_CASE("the estimate is within its error of the truth, and better for more steps") {
  int inside = 0, trials = 200;
  double early = 0, late = 0;
  for (int trial = 0; trial < trials; ++trial) {
    Gradients gradients;
    gradients.engine.seed(static_cast<unsigned>(trial));
    RecentAverage average(1);
    add(average, gradients, 50);
    early += average.error() / trials;
    add(average, gradients, 1950);
    late += average.error() / trials;
    inside += std::abs(phi_of(average) - 0.1) < 2 * average.error();
  }
  CHECK(inside >= 0.85 * trials);
  CHECK(late < 0.5 * early);
}

TEST_CASE("the magnitude of gradients does not matter, nor that it falls") {
  Gradients gradients, same;
  RecentAverage steady(1), falling(1), tiny(1);
  for (int i = 0; i < 1000; ++i) {
    const GroupMeasurement measured = gradients.measure(2, 1);
    const auto times = [&](double factor) {
      return GroupMeasurement{factor * measured.square,
                              {factor * measured.params.sqr, factor * measured.params.var}};
    };
    steady.add(2, 1, {measured}, 1);
    falling.add(2, 1, {times(std::exp(-i / 50.0))}, 1);
    tiny.add(2, 1, {times(1e-200)}, 1);
  }
  CHECK(phi_of(falling) == doctest::Approx(phi_of(steady)).epsilon(1e-9));
  CHECK(phi_of(tiny) == doctest::Approx(phi_of(steady)).epsilon(1e-9));
  CHECK(falling.error() == doctest::Approx(steady.error()).epsilon(1e-9));
  // The published magnitude is the present one.
  CHECK(falling.group(0).var < 10 * std::exp(-1000 / 50.0));
}

TEST_CASE("a change ends the window, in either direction") {
  for (const double next : {0.01, 1.0}) {
    Gradients gradients;
    RecentAverage average(1);
    add(average, gradients, 3000);
    CHECK(average.window() > 300);
    gradients.phi = next;
    add(average, gradients, 300);
    CHECK(average.window() < 300);
    CHECK(std::abs(phi_of(average) - next) < 0.05 + 0.2 * next);
  }
}

TEST_CASE("any count and batch measures the same") {
  Gradients gradients;
  RecentAverage average(1);
  for (int i = 0; i < 4000; ++i) {
    const int count = 2 + i % 3;
    const double scale = 1 << i % 4;
    average.add(count, scale, {gradients.measure(count, scale)}, scale);
  }
  CHECK(phi_of(average) == doctest::Approx(0.1).epsilon(0.1));
}

TEST_CASE("groups have their own averages over the same window") {
  Gradients first, second;
  second.phi = 0.4;
  RecentAverage average(2);
  for (int i = 0; i < 3000; ++i) {
    average.add(2, 1, {first.measure(2, 1), second.measure(2, 1)}, 1);
  }
  CHECK(phi_of(average) == doctest::Approx(0.1).epsilon(0.3));
  CHECK(average.group(1).sqr / average.group(1).var == doctest::Approx(0.4).epsilon(0.2));
}

// Recorded while digits (`adaptdl init digits`) was trained with SGD at its batch of 32 by two
// replicas: for each step mean |g_i|^2, |G|^2, and |G|^2 of all samples together; 0: not computed.
TEST_CASE("recorded gradients: the noise of now, through orders of magnitude") {
  const std::string path = ADAPTDL_SOURCE_DIR "/tests/unit/gns/digits_gradients.csv";
  const CsvTable steps(read_file(path, 1 << 20), path, {"samples", "local", "total", "full"});
  constexpr size_t kAround = 60;
  std::vector<double> factors, average_of_all;
  RecentAverage average(1);
  double all_var = 0, all_sqr = 0;
  for (size_t t = 0; t + kAround < steps.rows(); ++t) {
    const auto measured = [&](size_t step) {
      const double local = steps.number(step, "local"), total = steps.number(step, "total");
      const double scale = steps.number(step, "samples") / 32;
      return GroupMeasurement{local, {2 * total - local, (local - total) * scale}};
    };
    const GroupMeasurement now = measured(t);
    average.add(2, steps.number(t, "samples") / 32, {now}, 1);
    all_var = 0.999 * all_var + now.params.var;
    all_sqr = 0.999 * all_sqr + now.params.sqr;
    if (t < 200 || t % 40 != 0) continue;
    // The truth, which leaps from step to step, around this one.
    double var = 0, sqr = 0, squares = 0, vars = 0;
    for (size_t i = t - kAround; i < t + kAround; ++i) {
      var += measured(i).params.var;
      ++vars;
      if (steps.number(i, "full") == 0) continue;
      sqr += steps.number(i, "full");
      ++squares;
    }
    const double truth = (sqr / squares) / (var / vars);
    factors.push_back(std::abs(std::log(phi_of(average) / truth)));
    average_of_all.push_back(std::abs(std::log(all_sqr / all_var / truth)));
  }
  REQUIRE(factors.size() > 20);
  std::sort(factors.begin(), factors.end());
  std::sort(average_of_all.begin(), average_of_all.end());
  CHECK(std::exp(factors[factors.size() / 2]) < 1.5);
  CHECK(std::exp(factors[factors.size() * 95 / 100]) < 3);
  CHECK(std::exp(average_of_all[average_of_all.size() / 2]) > 3);  // what AdaptDL's would say
}

TEST_CASE("the state reads back to the last bit, and nonsense is refused") {
  Gradients gradients;
  RecentAverage average(1);
  add(average, gradients, 100);
  auto copy = RecentAverage::from_json(nlohmann::json::parse(average.to_json().dump()), 1);
  CHECK(copy.to_json() == average.to_json());
  CHECK(copy.error() == average.error());
  const GroupMeasurement next = gradients.measure(2, 1);
  copy.add(2, 1, {next}, 1);
  average.add(2, 1, {next}, 1);
  CHECK(copy.to_json() == average.to_json());
  CHECK_THROWS_AS(RecentAverage::from_json(average.to_json(), 2), Error);
  for (const char* bad : {"3", "{}", R"({"windows": [[1]], "square": 1})",
                          R"({"windows": [], "square": 1})", R"({"windows": 1, "square": 1})"}) {
    CHECK_THROWS_AS(RecentAverage::from_json(nlohmann::json::parse(bad), 1), Error);
  }
}

TEST_CASE("steps without a gradient, and numbers too large, are not used") {
  Gradients gradients;
  RecentAverage average(1);
  add(average, gradients, 10);
  const auto before = average.to_json();
  average.add(2, 1, {{0, {0, 0}}}, 1);
  average.add(2, 1, {{1e-300, {1e300, 1}}}, 1);
  CHECK(average.to_json() == before);
}

}  // namespace
}  // namespace adaptdl::gns
