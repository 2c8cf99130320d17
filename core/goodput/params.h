#pragma once

// What a job has measured of itself: how long its steps take, and how noisy its gradients are.
// Plain data, safe to copy and to share for reading. Names follow AdaptDL's scheduling hints.
//
// Sources: Pollux (OSDI'21), sections 3.1 and 3.2; AdaScale (arXiv 2007.05105).

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace adaptdl {

// Step-time model, times in seconds, m = samples in one replica's forward and backward:
//   accum_time(m)     = alpha_c + beta_c m
//   network_time(N,K) = alpha_r + beta_r max(K-2, 0) on one node, alpha_n + beta_n max(K-2, 0) on
//                       several, 0 for K = 1
//   optim_time        = (accum_time^gamma + network_time^gamma)^(1/gamma)
// 1e-8 stands for each zero so that logarithms exist.
struct PerfParams {
  double alpha_c = 0, beta_c = 0;  // >= 1e-8
  double alpha_n = 0, beta_n = 0;
  double alpha_r = 0, beta_r = 0;
  double gamma = 1;  // [1, 10]: 1 = no overlap of computation and network, 10 = nearly full overlap

  bool operator==(const PerfParams&) const = default;
};

// Estimates at the initial batch size M0, both >= 0: |true gradient|^2, and the trace of the
// gradient's covariance.
struct GradParams {
  double sqr = 0;
  double var = 0;

  bool operator==(const GradParams&) const = default;
};

// AdaScale's gain r = (var + sqr) / (var / scale + sqr): how many steps at batch M0 one step at
// scale * M0 is worth; in [1, scale] for scale >= 1, and 1 if nothing is known (both zero).
// Requires: scale > 0.
double gain(const GradParams& grad, double scale);

// The hints perfParams {alpha_c, ..., gamma} and gradParams {norm, var} ("norm" is sqr). null,
// which AdaptDL jobs send until they know the values, reads as nullopt. Throws Error with `where`
// and the field if a field is missing, not a number, not finite or negative, or gamma is outside
// [1, 10].
nlohmann::json to_json(const PerfParams& params);
nlohmann::json to_json(const GradParams& params);
std::optional<PerfParams> perf_params_from_json(const nlohmann::json& value,
                                                const std::string& where);
std::optional<GradParams> grad_params_from_json(const nlohmann::json& value,
                                                const std::string& where);

}  // namespace adaptdl
