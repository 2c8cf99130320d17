#pragma once

// Carries out the rules of rules.h on tensors: one pass over plain memory (kernels.h) on a CPU,
// calls for whole lists (tensor_list.h) for everything else.

#include <algorithm>
#include <array>

#include "runtime/optim/blocks.h"
#include "runtime/optim/kernels.h"
#include "runtime/optim/tensor_list.h"
#include "runtime/optim/update_rule.h"

namespace adaptdl::rules {

constexpr size_t kMaxStates = 3;  // of a rule of ours

inline bool is_plain(const Update& update, size_t i, int states) {
  const at::Tensor& parameter = update.parameters[i];
  const auto type = parameter.scalar_type();
  bool plain = parameter.device().is_cpu() && (type == at::kFloat || type == at::kDouble) &&
               parameter.is_non_overlapping_and_dense() &&
               update.gradients[i].scalar_type() == type;
  for (int k = 0; k < states; ++k) {
    plain = plain && update.state[k][i].strides() == parameter.strides();
  }
  return plain;
}

// The gradient of parameter `i`, laid out like it.
inline at::Tensor gradient_of(const Update& update, size_t i) {
  const at::Tensor& parameter = update.parameters[i];
  const at::Tensor& gradient = update.gradients[i];
  if (gradient.strides() == parameter.strides()) return gradient;
  return at::empty_like(parameter).copy_(gradient);
}

// As an operator of LibTorch does.
inline void bump_version(const at::Tensor& parameter) {
  parameter.unsafeGetTensorImpl()->bump_version();
}

// Calls f(parameter, gradient, state, elements) with plain memory of parameter `i`.
template <typename T, typename F>
void with_memory(const Update& update, size_t i, int states, const F& f) {
  const at::Tensor& parameter = update.parameters[i];
  const at::Tensor gradient = gradient_of(update, i);
  std::array<T*, kMaxStates> state{};
  for (int k = 0; k < states; ++k) state[k] = update.state[k][i].mutable_data_ptr<T>();
  f(parameter.mutable_data_ptr<T>(), gradient.const_data_ptr<T>(), state, parameter.numel());
  bump_version(parameter);
}

template <typename T>
std::array<T*, kMaxStates> from(std::array<T*, kMaxStates> state, int64_t begin) {
  for (T*& pointer : state) {
    if (pointer) pointer += begin;
  }
  return state;
}

// The parameters that are not plain.
struct Lists {
  TensorList parameters, gradients;
  std::array<TensorList, kMaxStates> state;

  void add(const Update& update, size_t i, int states) {
    parameters.tensors.push_back(update.parameters[i]);
    gradients.tensors.push_back(update.gradients[i]);
    for (int k = 0; k < states; ++k) state[k].tensors.push_back(update.state[k][i]);
  }
};

// plain(i, T()) updates plain parameter `i`; the others are returned.
template <typename F>
Lists for_plain(const Update& update, int states, const F& plain) {
  Lists others;
  for (size_t i = 0; i < update.parameters.size(); ++i) {
    if (!is_plain(update, i, states)) {
      others.add(update, i, states);
    } else if (update.parameters[i].scalar_type() == at::kFloat) {
      plain(i, float());
    } else {
      plain(i, double());
    }
  }
  return others;
}

template <typename Rule>
void apply(const Rule& rule, const Update& parameters) {
  Lists others = for_plain(parameters, Rule::kStates, [&](size_t i, auto zero) {
    using T = decltype(zero);
    with_memory<T>(parameters, i, Rule::kStates,
                   [&](T* parameter, const T* gradient, const auto& state, int64_t count) {
                     for_blocks(count, [&](int64_t begin, int64_t end) {
                       update(rule, parameter + begin, gradient + begin, from(state, begin),
                              static_cast<size_t>(end - begin));
                     });
                   });
  });
  if (others.parameters.tensors.empty()) return;
  rule(others.parameters, others.gradients, others.state[0], others.state[1], others.state[2]);
}

inline double lamb_rate(double lr, const LambSums& sums) {
  const bool any = sums.parameter > 0 && sums.direction > 0;
  return any ? lr * std::sqrt(sums.parameter / sums.direction) : lr;
}

inline void apply(const Lamb& rule, const Update& parameters) {
  Lists others = for_plain(parameters, Lamb::kStates, [&](size_t i, auto zero) {
    using T = decltype(zero);
    with_memory<T>(parameters, i, Lamb::kStates,
                   [&](T* parameter, const T* gradient, const auto& state, int64_t count) {
                     // Added up in the order of the blocks, so that the sum is the same with any
                     // threads.
                     std::vector<LambSums> parts(static_cast<size_t>(block_of(count) + 1));
                     for_blocks(count, [&](int64_t begin, int64_t end) {
                       parts[static_cast<size_t>(block_of(begin))] =
                           lamb_prepare(rule, parameter + begin, gradient + begin, state[0] + begin,
                                        state[1] + begin, static_cast<size_t>(end - begin));
                     });
                     LambSums sums;
                     for (const LambSums& part : parts) {
                       sums.parameter += part.parameter;
                       sums.direction += part.direction;
                     }
                     const double rate = lamb_rate(rule.lr, sums);
                     for_blocks(count, [&](int64_t begin, int64_t end) {
                       lamb_move(rule, rate, parameter + begin, state[0] + begin, state[1] + begin,
                                 static_cast<size_t>(end - begin));
                     });
                   });
  });
  if (others.parameters.tensors.empty()) return;
  rule.moments.update(others.state[0], others.state[1], others.gradients);
  TensorList moves = rule.direction(others.parameters, others.state[0], others.state[1]);
  const auto sizes = at::_foreach_norm(others.parameters.tensors);
  const auto lengths = at::_foreach_norm(moves.tensors);
  for (size_t i = 0; i < moves.tensors.size(); ++i) {
    // Without waiting for the device.
    const auto ratio = at::where((sizes[i] > 0).logical_and(lengths[i] > 0), sizes[i] / lengths[i],
                                 at::ones_like(sizes[i]));
    moves.tensors[i].mul_(ratio);
  }
  add_scaled(others.parameters, moves, -rule.lr);
}

}  // namespace adaptdl::rules
