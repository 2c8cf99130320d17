#pragma once

// What one update of each optimizer computes, written once for all kinds of values: an element of
// plain memory (float or double: kernels.h makes one pass of it), or a list of tensors on any
// device (tensor_list.h). Formulas and names are those of torch.optim; LAMB: arXiv 1904.00962 v5,
// algorithm 2 with phi(z) = z; Lion: arXiv 2302.06675, algorithm 2. Torch-free.
//
// A rule is called with a parameter, its gradient, and the `kStates` values that are kept for it,
// which it changes. All members are computed beforehand, from settings, learning rate and step.

#include <cmath>
#include <concepts>

// Bodies are compiled once per instruction set, inside a function with its target attribute.
#define ADAPTDL_RULE [[gnu::always_inline]] inline

namespace adaptdl::rules {

// The operations on elements. Constants come as double, and are rounded to the element's type once.
template <std::floating_point T>
ADAPTDL_RULE void scale(T& x, double by) {
  x *= static_cast<T>(by);
}
template <std::floating_point T>
ADAPTDL_RULE void add(T& x, double number) {
  x += static_cast<T>(number);
}
template <std::floating_point T>
ADAPTDL_RULE void add_scaled(T& x, const T& y, double by) {
  x += y * static_cast<T>(by);
}
template <std::floating_point T>
ADAPTDL_RULE void add_product(T& x, const T& a, const T& b, double by) {
  x += static_cast<T>(by) * a * b;
}
template <std::floating_point T>
ADAPTDL_RULE void add_quotient(T& x, const T& a, const T& b, double by) {
  x += static_cast<T>(by) * a / b;
}
template <std::floating_point T>
ADAPTDL_RULE void multiply(T& x, const T& y) {
  x *= y;
}
template <std::floating_point T>
ADAPTDL_RULE void divide(T& x, const T& y) {
  x /= y;
}
template <std::floating_point T>
ADAPTDL_RULE void raise_to(T& x, const T& least) {
  x = x < least ? least : x;
}
template <std::floating_point T>
ADAPTDL_RULE T scaled(const T& x, double by) {
  return x * static_cast<T>(by);
}
template <std::floating_point T>
ADAPTDL_RULE T plus(const T& x, double number) {
  return x + static_cast<T>(number);
}
template <std::floating_point T>
ADAPTDL_RULE T plus_scaled(const T& x, const T& y, double by) {
  return x + y * static_cast<T>(by);
}
template <std::floating_point T>
ADAPTDL_RULE T minus_square(const T& x, const T& y) {
  return x - y * y;
}
template <std::floating_point T>
ADAPTDL_RULE T square_root(const T& x) {
  return std::sqrt(x);
}
template <std::floating_point T>
ADAPTDL_RULE T sign(const T& x) {
  return static_cast<T>(x > 0) - static_cast<T>(x < 0);
}

// buffer = momentum * buffer + taken * g; p -= lr * (of_buffer * buffer + of_gradient * g).
template <bool has_momentum>
struct Sgd {
  static constexpr int kStates = has_momentum ? 1 : 0;
  double lr = 0, weight_decay = 0;
  double momentum = 0, taken = 1;  // taken: 1 - dampening, but 1 in the first update
  double of_buffer = 1, of_gradient = 0;

  template <typename V>
  ADAPTDL_RULE void operator()(V& p, const V& gradient, V& buffer, V& /*b*/, V& /*c*/) const {
    const V g = plus_scaled(gradient, p, weight_decay);
    if constexpr (has_momentum) {
      scale(buffer, momentum);
      add_scaled(buffer, g, taken);
      add_scaled(p, buffer, -lr * of_buffer);
      add_scaled(p, g, -lr * of_gradient);
    } else {
      add_scaled(p, g, -lr);
    }
  }
};

// The averages of gradients and their squares that Adam, NAdam and LAMB keep.
struct Moments {
  double beta1 = 0, beta2 = 0;

  template <typename V>
  ADAPTDL_RULE void update(V& mean, V& square, const V& g) const {
    scale(mean, beta1);
    add_scaled(mean, g, 1 - beta1);
    scale(square, beta2);
    add_product(square, g, g, 1 - beta2);
  }
};

// sqrt(square / (1 - beta2^step)) + eps
struct Denominator {
  double correction = 1, eps = 0;  // correction: 1 / sqrt(1 - beta2^step)

  template <typename V>
  ADAPTDL_RULE V of(const V& square) const {
    V result = square_root(square);
    scale(result, correction);
    add(result, eps);
    return result;
  }
};

// Adam and AdamW: weight decay is coupled (weight_decay) or decoupled (kept = 1 - lr * decay).
template <bool amsgrad>
struct Adam {
  static constexpr int kStates = amsgrad ? 3 : 2;
  double kept = 1, weight_decay = 0;
  Moments moments;
  Denominator denominator;
  double step_size = 0;  // lr / (1 - beta1^step)

  template <typename V>
  ADAPTDL_RULE void operator()(V& p, const V& gradient, V& mean, V& square, V& largest) const {
    scale(p, kept);
    moments.update(mean, square, plus_scaled(gradient, p, weight_decay));
    if constexpr (amsgrad) raise_to(largest, square);
    add_quotient(p, mean, denominator.of(amsgrad ? largest : square), -step_size);
  }
};

struct Nadam {
  static constexpr int kStates = 2;
  double kept = 1, weight_decay = 0;
  Moments moments;
  Denominator denominator;
  double of_gradient = 0, of_mean = 0;

  template <typename V>
  ADAPTDL_RULE void operator()(V& p, const V& gradient, V& mean, V& square, V& /*c*/) const {
    scale(p, kept);
    const V g = plus_scaled(gradient, p, weight_decay);
    moments.update(mean, square, g);
    const V by = denominator.of(square);
    add_quotient(p, g, by, -of_gradient);
    add_quotient(p, mean, by, -of_mean);
  }
};

// The states are in the order square average, momentum buffer, average gradient.
template <bool has_momentum, bool centered>
struct Rmsprop {
  static constexpr int kStates = 1 + (has_momentum ? 1 : 0) + (centered ? 1 : 0);
  double lr = 0, weight_decay = 0, alpha = 0, eps = 0, momentum = 0;

  template <typename V>
  ADAPTDL_RULE void operator()(V& p, const V& gradient, V& square, V& b, V& c) const {
    const V g = plus_scaled(gradient, p, weight_decay);
    scale(square, alpha);
    add_product(square, g, g, 1 - alpha);
    V by = divisor(square, g, has_momentum ? c : b);
    add(by, eps);
    if constexpr (has_momentum) {
      scale(b, momentum);
      add_quotient(b, g, by, 1);
      add_scaled(p, b, -lr);
    } else {
      add_quotient(p, g, by, -lr);
    }
  }

 private:
  template <typename V>
  ADAPTDL_RULE V divisor(const V& square, const V& g, V& mean) const {
    if constexpr (!centered) return square_root(square);
    scale(mean, alpha);
    add_scaled(mean, g, 1 - alpha);
    return square_root(minus_square(square, mean));
  }
};

struct Adagrad {
  static constexpr int kStates = 1;
  double rate = 0, weight_decay = 0, eps = 0;  // rate: lr / (1 + (step - 1) * lr_decay)

  template <typename V>
  ADAPTDL_RULE void operator()(V& p, const V& gradient, V& sum, V& /*b*/, V& /*c*/) const {
    const V g = plus_scaled(gradient, p, weight_decay);
    add_product(sum, g, g, 1);
    V by = square_root(sum);
    add(by, eps);
    add_quotient(p, g, by, -rate);
  }
};

struct Adadelta {
  static constexpr int kStates = 2;
  double lr = 0, weight_decay = 0, rho = 0, eps = 0;

  template <typename V>
  ADAPTDL_RULE void operator()(V& p, const V& gradient, V& square, V& moved, V& /*c*/) const {
    const V g = plus_scaled(gradient, p, weight_decay);
    scale(square, rho);
    add_product(square, g, g, 1 - rho);
    V delta = square_root(plus(moved, eps));
    divide(delta, square_root(plus(square, eps)));
    multiply(delta, g);
    scale(moved, rho);
    add_product(moved, delta, delta, 1 - rho);
    add_scaled(p, delta, -lr);
  }
};

struct Lion {
  static constexpr int kStates = 1;
  double lr = 0, kept = 1, beta1 = 0, beta2 = 0;

  template <typename V>
  ADAPTDL_RULE void operator()(V& p, const V& g, V& mean, V& /*b*/, V& /*c*/) const {
    V blend = scaled(mean, beta1);
    add_scaled(blend, g, 1 - beta1);
    scale(p, kept);
    add_scaled(p, sign(blend), -lr);
    scale(mean, beta2);
    add_scaled(mean, g, 1 - beta2);
  }
};

// LAMB moves a parameter by -rate * direction, where rate = lr * |p| / |direction|, or lr where one
// of these norms is 0: it needs both norms of the whole parameter in between.
struct Lamb {
  static constexpr int kStates = 2;
  double lr = 0, weight_decay = 0;
  Moments moments;
  Denominator denominator;
  double mean_correction = 1;  // 1 / (1 - beta1^step)

  template <typename V>
  ADAPTDL_RULE V direction(const V& p, const V& mean, const V& square) const {
    V result = scaled(p, weight_decay);
    add_quotient(result, mean, denominator.of(square), mean_correction);
    return result;
  }
};

}  // namespace adaptdl::rules
