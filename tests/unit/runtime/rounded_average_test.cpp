#include "runtime/parallel/rounded_average.h"

#include <cmath>
#include <doctest/doctest.h>

#include "runtime/parallel/gradients.h"
#include "runtime/torch_compat.h"
#include "tests/unit/comm/group.h"

using namespace adaptdl;

namespace rounded_average_test {

// More than what a CPU rounds at once.
constexpr int64_t kCount = 100'001;
constexpr double kUnit = 1.0 / 256;  // the most that rounding to bf16 changes a number, relatively

void on_hosts(int number, const std::function<void(comm::Communicator&)>& body) {
  comm::testing::with_group(comm::testing::many_hosts(number), body);
}

at::Tensor numbers_of(int rank) {
  return at::sin(at::arange(kCount, at::kFloat) * (1 + rank)) + 2;  // 1 to 3
}

TEST_CASE("rounded average: near the mean, and the same on all hosts") {
  std::vector<at::Tensor> results(3);
  on_hosts(3, [&](comm::Communicator& communicator) {
    RoundedAverage rounded;
    const at::Tensor values = numbers_of(communicator.rank());
    rounded.average(communicator, values);
    results[static_cast<size_t>(communicator.rank())] = values;
  });
  const at::Tensor mean = (numbers_of(0) + numbers_of(1) + numbers_of(2)) / 3;
  CHECK(((results[0] - mean).abs() / mean).max().item<double>() < 2 * kUnit);
  CHECK_FALSE(at::equal(results[0], mean));
  for (const at::Tensor& other : results) CHECK(at::equal(other, results[0]));
}

// Sums of `steps` averages of one number of each replica.
double sum_of(comm::Communicator& communicator, double mine, int steps) {
  RoundedAverage rounded;
  double sum = 0;
  for (int step = 0; step < steps; ++step) {
    const at::Tensor values = at::full({3}, mine, at::kFloat);
    rounded.average(communicator, values);
    sum += values[1].item<double>();
  }
  return sum;
}

// Each of these is rounded to 1: without error feedback the sum of 256 would be too small by 0.66.
TEST_CASE("rounded average: the rounding error of a gradient counts in the next steps") {
  constexpr int kSteps = 256;
  const double value = 1 + kUnit * 0.66;
  on_hosts(2, [&](comm::Communicator& communicator) {
    CHECK(std::abs(sum_of(communicator, value, kSteps) - kSteps * value) < 2 * kUnit);
    // The rounding of sums remains.
    const double mine = communicator.rank() == 0 ? value : 3 * value;
    CHECK(std::abs(sum_of(communicator, mine, kSteps) / kSteps - 2 * value) < 2 * value * kUnit);
  });
}

float average_of(comm::Communicator& communicator, RoundedAverage& rounded,
                 std::vector<float> mine) {
  const at::Tensor values = at::tensor(mine);
  rounded.average(communicator, values);
  return values[0].item<float>();
}

TEST_CASE("rounded average: an infinite number leaves no error, a huge one none to small ones") {
  on_hosts(2, [](comm::Communicator& communicator) {
    RoundedAverage rounded;
    const bool first = communicator.rank() == 0;
    CHECK(std::isinf(average_of(communicator, rounded, {first ? INFINITY : 1})));
    CHECK(std::isnan(average_of(communicator, rounded, {first ? NAN : 1})));
    CHECK(std::isinf(average_of(communicator, rounded, {3.4028e38F})));  // bf16 ends before fp32
    CHECK(average_of(communicator, rounded, {1}) == 1);
    CHECK(average_of(communicator, rounded, {1.003e20F}) == doctest::Approx(1e20).epsilon(kUnit));
    CHECK(average_of(communicator, rounded, {1}) == 1);
  });
}

// The gradient of a step whose loss is value * parameter.
double gradient_of(comm::Communicator& communicator, Gradients& gradients, double value) {
  const at::Tensor& parameter = gradients.parameters()[0].tensor;
  gradients.begin(&communicator, 1, true);
  gradients.begin_micro_step(0, 1.0);
  (parameter.sum() * value).backward();
  gradients.end_micro_step();
  gradients.finish();
  return parameter.grad()[0].item<double>();
}

TEST_CASE("gradients: rounded between hosts, where that is asked for, and not on one") {
  constexpr double kValue = 1 + kUnit * 0.75, kNext = 1 + kUnit * 2;
  const auto on = [&](comm::Communicator& communicator, const GradientsOptions& options,
                      const std::vector<double>& expected, comm::Communicator* then = nullptr) {
    const std::vector<NamedTensor> parameters = {{"p", at::ones({4}).set_requires_grad(true)}};
    OptimizerSpec spec;
    spec.defaults.lr = 0.1;
    const Optimizer optimizer(spec, parameters);
    Gradients gradients(parameters, optimizer, options);
    for (const double value : expected) {
      CHECK(gradient_of(communicator, gradients, kValue) == value);
    }
    if (then == nullptr) return;
    CHECK(gradient_of(*then, gradients, kValue) == kValue);
    CHECK(gradient_of(communicator, gradients, kValue) == 1);  // nothing is left of before
  };
  comm::testing::Listeners together(comm::testing::one_host(2));
  on_hosts(2, [&](comm::Communicator& communicator) {
    on(communicator, {}, {kValue, kValue});
    on(communicator, {.rounded = true}, {1, kNext});
    const auto one_host = together.connect(communicator.rank());
    on(communicator, {.rounded = true}, {1}, one_host.get());
  });
}

}  // namespace rounded_average_test
