#pragma once

// One class for LibTorch's optimizers, with parameter groups by name, a learning-rate factor for
// each step, and the state as a flat list of tensors for transfer and checkpoints.

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "adaptdl/named_tensor.h"
#include "core/job/training_spec.h"

namespace torch::optim {
class Optimizer;
}

namespace adaptdl {

// The divisor of gradients in Adam-like optimizers: sqrt(exp_avg_sq / (1 - beta2^steps)) + eps;
// ones during the first five steps. Gradient norms are computed after this division (Pollux's
// treatment of preconditioned optimizers).
struct Preconditioner {
  at::Tensor exp_avg_sq;  // aliases the live state; undefined: ones
  double beta2 = 0, eps = 0;
  int64_t steps = 0;  // updates included in exp_avg_sq
};

// Not thread-safe. step() does not change parameters without a gradient.
class Optimizer {
 public:
  // `parameters` are leaves that require gradients. Each belongs to the first group of `spec` whose
  // glob matches its name, else to the defaults. Throws Error if a group matches no parameter.
  Optimizer(const OptimizerSpec& spec, std::vector<NamedTensor> parameters);
  ~Optimizer();

  int group_count() const { return static_cast<int>(base_lr_.size()); }
  int group_of(size_t parameter) const { return group_of_[parameter]; }

  // Learning rate of a group before schedule and scaling rule.
  double base_lr(int group) const { return base_lr_[group]; }

  // Updates the parameters from their gradients, which are clipped as the spec says. The learning
  // rate of group g is base_lr(g) * lr_factors[g].
  void step(const std::vector<double>& lr_factors);

  // Of Adam and AdamW; empty for other optimizers and before the first step.
  Preconditioner preconditioner(size_t parameter) const;

  // Momentum buffers and the like, "PARAMETER/NAME" in a fixed order; they alias the live state.
  std::vector<NamedTensor> state_tensors() const;

  // Step counters and which tensors exist. prepare_state() creates those tensors, zeroed, so that
  // state_tensors() has the same list as the optimizer that wrote `counters`.
  nlohmann::json counters() const;
  void prepare_state(const nlohmann::json& counters);

  // Allocates the memory that prepare_state() will need, so that other replicas do not wait for its
  // page faults when they send their state. The first step() frees it.
  void reserve_state();

 private:
  at::Tensor take_zeros(size_t parameter);

  OptimizerSpec spec_;
  std::vector<NamedTensor> parameters_;
  std::vector<int> group_of_;
  std::vector<double> base_lr_;
  std::vector<OptimizerSettings> settings_;
  std::vector<std::vector<at::Tensor>> spare_;  // by parameter; or empty
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

}  // namespace adaptdl
