// Compiled with vectorisation, and without the contraction of products and sums to fused
// multiply-adds: their rounding depends on the machine, but all replicas must compute the same.

#include "runtime/optim/kernels.h"

#include <algorithm>

namespace adaptdl::rules {
namespace {

template <typename Rule, typename T>
ADAPTDL_RULE void update_array(const Rule& shared, T* __restrict parameter,
                               const T* __restrict gradient, const std::array<T*, 3>& state,
                               size_t n) {
  const Rule rule = shared;  // a local one cannot change while memory is written
  T* __restrict first = state[0];
  T* __restrict second = state[1];
  T* __restrict third = state[2];
  for (size_t i = 0; i < n; ++i) {
    T p = parameter[i], a{}, b{}, c{};
    if constexpr (Rule::kStates > 0) a = first[i];
    if constexpr (Rule::kStates > 1) b = second[i];
    if constexpr (Rule::kStates > 2) c = third[i];
    rule(p, gradient[i], a, b, c);
    parameter[i] = p;
    if constexpr (Rule::kStates > 0) first[i] = a;
    if constexpr (Rule::kStates > 1) second[i] = b;
    if constexpr (Rule::kStates > 2) third[i] = c;
  }
}

constexpr size_t kLanes = 8;

// Sums in a fixed order that vector registers can follow.
struct LaneSums {
  double lanes[kLanes] = {};

  template <typename T>
  ADAPTDL_RULE void add_squares(const T* __restrict values, size_t n) {
    double sums[kLanes];
    std::copy_n(lanes, kLanes, sums);
    size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const double value = values[i + lane];
        sums[lane] += value * value;
      }
    }
    for (; i < n; ++i) sums[i % kLanes] += static_cast<double>(values[i]) * values[i];
    std::copy_n(sums, kLanes, lanes);
  }

  ADAPTDL_RULE double total() const {
    double sum = 0;
    for (const double lane : lanes) sum += lane;
    return sum;
  }
};

template <typename T>
ADAPTDL_RULE LambSums prepare_array(const Lamb& shared, const T* __restrict parameter,
                                    const T* __restrict gradient, T* __restrict mean,
                                    T* __restrict square, size_t n) {
  const Lamb rule = shared;
  constexpr size_t kTile = 512;  // stays in the first cache
  T direction[kTile];
  LaneSums parameters, directions;
  for (size_t begin = 0; begin < n; begin += kTile) {
    const size_t count = std::min(kTile, n - begin);
    for (size_t k = 0; k < count; ++k) {
      const size_t i = begin + k;
      T m = mean[i], v = square[i];
      rule.moments.update(m, v, gradient[i]);
      direction[k] = rule.direction(parameter[i], m, v);
      mean[i] = m;
      square[i] = v;
    }
    parameters.add_squares(parameter + begin, count);
    directions.add_squares(direction, count);
  }
  return {parameters.total(), directions.total()};
}

template <typename T>
ADAPTDL_RULE void move_array(const Lamb& shared, double rate, T* __restrict parameter,
                             const T* __restrict mean, const T* __restrict square, size_t n) {
  const Lamb rule = shared;
  for (size_t i = 0; i < n; ++i) {
    T p = parameter[i];
    const T from = p;
    add_scaled(p, rule.direction(from, mean[i], square[i]), -rate);
    parameter[i] = p;
  }
}

#if defined(__x86_64__)
#define ADAPTDL_WIDE [[gnu::target("avx2")]]
bool wide() {
  static const bool known = __builtin_cpu_supports("avx2") != 0;
  return known;
}
#else
#define ADAPTDL_WIDE
constexpr bool wide() {
  return false;
}
#endif

template <typename Rule, typename T>
ADAPTDL_WIDE void update_wide(const Rule& rule, T* parameter, const T* gradient,
                              const std::array<T*, 3>& state, size_t n) {
  update_array(rule, parameter, gradient, state, n);
}

template <typename T>
ADAPTDL_WIDE LambSums prepare_wide(const Lamb& rule, const T* parameter, const T* gradient, T* mean,
                                   T* square, size_t n) {
  return prepare_array(rule, parameter, gradient, mean, square, n);
}

template <typename T>
ADAPTDL_WIDE void move_wide(const Lamb& rule, double rate, T* parameter, const T* mean,
                            const T* square, size_t n) {
  move_array(rule, rate, parameter, mean, square, n);
}

}  // namespace

template <typename Rule, typename T>
void update(const Rule& rule, T* parameter, const T* gradient, const std::array<T*, 3>& state,
            size_t n) {
  if (wide()) return update_wide(rule, parameter, gradient, state, n);
  update_array(rule, parameter, gradient, state, n);
}

template <typename T>
LambSums lamb_prepare(const Lamb& rule, const T* parameter, const T* gradient, T* mean, T* square,
                      size_t n) {
  if (wide()) return prepare_wide(rule, parameter, gradient, mean, square, n);
  return prepare_array(rule, parameter, gradient, mean, square, n);
}

template <typename T>
void lamb_move(const Lamb& rule, double rate, T* parameter, const T* mean, const T* square,
               size_t n) {
  if (wide()) return move_wide(rule, rate, parameter, mean, square, n);
  move_array(rule, rate, parameter, mean, square, n);
}

using RmspropPlain = Rmsprop<false, false>;
using RmspropCentered = Rmsprop<false, true>;
using RmspropMomentum = Rmsprop<true, false>;
using RmspropBoth = Rmsprop<true, true>;

// NOLINTBEGIN(bugprone-macro-parentheses): types are no expressions
#define ADAPTDL_UPDATE(rule, type) \
  template void update(const rule&, type*, const type*, const std::array<type*, 3>&, size_t);
#define ADAPTDL_TYPE(type)                                                                     \
  ADAPTDL_UPDATE(Sgd<false>, type)                                                             \
  ADAPTDL_UPDATE(Sgd<true>, type)                                                              \
  ADAPTDL_UPDATE(Adam<false>, type)                                                            \
  ADAPTDL_UPDATE(Adam<true>, type)                                                             \
  ADAPTDL_UPDATE(Nadam, type)                                                                  \
  ADAPTDL_UPDATE(RmspropPlain, type)                                                           \
  ADAPTDL_UPDATE(RmspropCentered, type)                                                        \
  ADAPTDL_UPDATE(RmspropMomentum, type)                                                        \
  ADAPTDL_UPDATE(RmspropBoth, type)                                                            \
  ADAPTDL_UPDATE(Adagrad, type)                                                                \
  ADAPTDL_UPDATE(Adadelta, type)                                                               \
  ADAPTDL_UPDATE(Lion, type)                                                                   \
  template LambSums lamb_prepare(const Lamb&, const type*, const type*, type*, type*, size_t); \
  template void lamb_move(const Lamb&, double, type*, const type*, const type*, size_t);
// NOLINTEND(bugprone-macro-parentheses)

ADAPTDL_TYPE(float)
ADAPTDL_TYPE(double)

}  // namespace adaptdl::rules
