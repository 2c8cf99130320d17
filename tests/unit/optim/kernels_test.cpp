#include "runtime/optim/kernels.h"

#include <doctest/doctest.h>
#include <vector>

using namespace adaptdl::rules;

namespace {

constexpr size_t kElements = 1237;

template <typename T>
struct Memory {
  std::vector<T> parameter, gradient, a, b, c;
  Memory() {
    for (size_t i = 0; i < kElements; ++i) {
      const auto x = static_cast<double>(i);
      parameter.push_back(static_cast<T>(std::sin(x)));
      gradient.push_back(static_cast<T>(std::cos(3 * x)));
      a.push_back(static_cast<T>(0.1 + std::abs(std::sin(5 * x))));
      b.push_back(static_cast<T>(0.01 + 0.2 * std::abs(std::cos(7 * x))));
      c.push_back(static_cast<T>(0.01 * std::abs(std::sin(11 * x))));
    }
  }
  bool operator==(const Memory&) const = default;
};

template <typename Rule, typename T>
void check_rule(const Rule& rule) {
  Memory<T> whole, pieces, elements;
  update(rule, whole.parameter.data(), whole.gradient.data(),
         {whole.a.data(), whole.b.data(), whole.c.data()}, kElements);
  for (size_t begin = 0, size = 0; begin < kElements; begin += size) {
    size = std::min(begin / 2 + 1, kElements - begin);
    update(rule, pieces.parameter.data() + begin, pieces.gradient.data() + begin,
           {pieces.a.data() + begin, pieces.b.data() + begin, pieces.c.data() + begin}, size);
  }
  CHECK((whole == pieces));
  // Here without vector registers.
  for (size_t i = 0; i < kElements; ++i) {
    rule(elements.parameter[i], elements.gradient[i], elements.a[i], elements.b[i], elements.c[i]);
  }
  CHECK((whole == elements));
  CHECK(whole.parameter != Memory<T>().parameter);
}

template <typename Rule>
void check_rule(const Rule& rule) {
  check_rule<Rule, float>(rule);
  check_rule<Rule, double>(rule);
}

template <bool amsgrad>
Adam<amsgrad> adam() {
  Adam<amsgrad> rule;
  rule.kept = 0.999;
  rule.weight_decay = 0.1;
  rule.moments = {0.9, 0.99};
  rule.denominator = {1.5, 1e-8};
  rule.step_size = 0.3;
  return rule;
}

template <bool has_momentum, bool centered>
Rmsprop<has_momentum, centered> rmsprop() {
  Rmsprop<has_momentum, centered> rule;
  rule.lr = 0.1;
  rule.weight_decay = 0.01;
  rule.alpha = 0.9;
  rule.eps = 1e-8;
  rule.momentum = 0.5;
  return rule;
}

Lamb lamb() {
  Lamb rule;
  rule.lr = 0.1;
  rule.weight_decay = 0.1;
  rule.moments = {0.9, 0.99};
  rule.denominator = {1.5, 1e-6};
  rule.mean_correction = 2;
  return rule;
}

template <typename T>
void check_lamb() {
  const Lamb rule = lamb();
  Memory<T> whole, elements;
  const LambSums sums = lamb_prepare(rule, whole.parameter.data(), whole.gradient.data(),
                                     whole.a.data(), whole.b.data(), kElements);
  LambSums wanted;
  for (size_t i = 0; i < kElements; ++i) {
    rule.moments.update(elements.a[i], elements.b[i], elements.gradient[i]);
    const T move = rule.direction(elements.parameter[i], elements.a[i], elements.b[i]);
    wanted.parameter += static_cast<double>(elements.parameter[i]) * elements.parameter[i];
    wanted.direction += static_cast<double>(move) * move;
  }
  CHECK(sums.parameter == doctest::Approx(wanted.parameter).epsilon(1e-13));
  CHECK(sums.direction == doctest::Approx(wanted.direction).epsilon(1e-13));
  CHECK((whole == elements));
  lamb_move(rule, 0.25, whole.parameter.data(), whole.a.data(), whole.b.data(), kElements);
  for (size_t i = 0; i < kElements; ++i) {
    const T move = rule.direction(elements.parameter[i], elements.a[i], elements.b[i]);
    add_scaled(elements.parameter[i], move, -0.25);
  }
  CHECK((whole == elements));
}

}  // namespace

TEST_CASE("an update has the same bits in any pieces and with any instructions") {
  Sgd<false> sgd;
  sgd.lr = 0.1;
  sgd.weight_decay = 0.01;
  check_rule(sgd);
  Sgd<true> momentum;
  momentum.lr = 0.1;
  momentum.momentum = 0.9;
  momentum.taken = 0.8;
  momentum.of_gradient = 0.5;
  check_rule(momentum);
  check_rule(adam<false>());
  check_rule(adam<true>());
  Nadam nadam;
  nadam.kept = 0.999;
  nadam.moments = {0.9, 0.99};
  nadam.denominator = {1.5, 1e-8};
  nadam.of_gradient = 0.1;
  nadam.of_mean = 0.2;
  check_rule(nadam);
  check_rule(rmsprop<false, false>());
  check_rule(rmsprop<true, false>());
  check_rule(rmsprop<false, true>());
  check_rule(rmsprop<true, true>());
  check_rule(Adagrad{0.1, 0.01, 1e-10});
  check_rule(Adadelta{1, 0.01, 0.9, 1e-6});
  check_rule(Lion{0.01, 0.999, 0.9, 0.99});
}

TEST_CASE("LAMB's norms are those of the parameter and its direction") {
  check_lamb<float>();
  check_lamb<double>();
}
