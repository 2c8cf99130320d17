#pragma once

// Passes over fp32 gradients in memory, with sums in float64. Limited by memory bandwidth, not by
// arithmetic. Thread-safe; arrays need only the alignment of float; n may be 0.

#include <cstddef>
#include <cstdint>

namespace adaptdl::gns {

// The divisor of gradients before they are squared (the optimizer's preconditioner), borrowed.
class Divisor {
 public:
  enum class Kind { ones, adam, array };

  Divisor() = default;  // ones

  // Adam's and AdamW's sqrt(exp_avg_sq / (1 - beta2^steps)) + eps, computed on the fly; ones during
  // the first five steps. `steps`: updates included in exp_avg_sq.
  static Divisor adam(const float* exp_avg_sq, double beta2, int64_t steps, double eps);
  static Divisor array(const float* values);

  Kind kind() const { return kind_; }
  const float* values() const { return values_; }
  float scale() const { return scale_; }
  float eps() const { return eps_; }

 private:
  Kind kind_ = Kind::ones;
  const float* values_ = nullptr;
  float scale_ = 1, eps_ = 0;
};

struct Dots {
  double aa = 0, bb = 0, ab = 0;
};

// Half the time of sum_squares().
bool all_finite(const float* values, size_t n);

double sum_squares(const float* values, size_t n, Divisor divisor = {});
Dots dots(const float* a, const float* b, size_t n, Divisor divisor = {});

// target = source; returns the sum of (source / divisor)^2. No overlap.
double copy_and_norm(float* target, const float* source, size_t n, Divisor divisor = {});

// target += source; returns the sum of (source / divisor)^2. No overlap.
double accumulate_and_norm(float* target, const float* source, size_t n, Divisor divisor = {});

}  // namespace adaptdl::gns
