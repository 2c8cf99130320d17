#pragma once

// Updates of parameters in plain memory, one pass each (LAMB: two). Limited by memory bandwidth.
// The results are the same to the last bit with any instruction set, and however an array is cut
// into pieces. Thread-safe on different arrays; these need only the alignment of their type, do not
// overlap, and may be empty. Torch-free.

#include <array>
#include <cstddef>

#include "runtime/optim/rules.h"

namespace adaptdl::rules {

// For every rule but LAMB, and T = float or double. state[k]: the rule's k-th state; the pointers
// from Rule::kStates on are not used.
template <typename Rule, typename T>
void update(const Rule& rule, T* parameter, const T* gradient, const std::array<T*, 3>& state,
            size_t n);

struct LambSums {
  double parameter = 0, direction = 0;  // sums of squares
};

// Updates the averages.
template <typename T>
LambSums lamb_prepare(const Lamb& rule, const T* parameter, const T* gradient, T* mean, T* square,
                      size_t n);

// parameter -= rate * direction
template <typename T>
void lamb_move(const Lamb& rule, double rate, T* parameter, const T* mean, const T* square,
               size_t n);

}  // namespace adaptdl::rules
