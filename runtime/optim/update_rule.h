#pragma once

// One optimizer: what it keeps for a parameter, and how it updates it. Optimizer (optimizer.h) does
// the rest for all of them: groups, learning rates, clipping, checkpoints. A new one is a rule in
// rules.h, if it has one for each element, and a class in update_rule.cpp.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "adaptdl/named_tensor.h"
#include "core/job/training_spec.h"

namespace adaptdl {

// The divisor of gradients in Adam-like optimizers: sqrt(exp_avg_sq / (1 - beta2^steps)) + eps;
// ones during the first five steps. Gradient norms are computed after this division (Pollux's
// treatment of preconditioned optimizers).
struct Preconditioner {
  at::Tensor exp_avg_sq;  // aliases the live state; undefined: ones
  double beta2 = 0, eps = 0;
  int64_t steps = 0;  // updates included in exp_avg_sq
};

struct ParameterState {
  int64_t steps = 0;  // updates of this parameter
  std::vector<NamedTensor> tensors;
};

constexpr size_t kMaxStates = 3;

// Parameters that are updated by one call: of one group, after equally many updates.
struct Update {
  std::vector<at::Tensor> parameters, gradients;  // one gradient for each
  // state[k][i]: the k-th of state_names() for parameter i.
  std::array<std::vector<at::Tensor>, kMaxStates> state;
  int64_t step = 1;    // how many updates this one makes for each of them
  bool first = false;  // the state is new
  double lr = 0;
  std::optional<double> momentum;  // in place of the settings' momentum or beta1
};

// Of one parameter group: it knows the group's settings. Not thread-safe.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;

  // Tensors like the parameter, kept from one update to the next; in checkpoints under these names.
  virtual std::vector<std::string> state_names() const = 0;
  // What their elements are before the first update.
  virtual double initial_state() const { return 0; }
  // Whether training can go on from a saved state with these names. If they are not state_names(),
  // the next update drops that state and begins a new one.
  virtual bool accepts(const std::vector<std::string>& saved) const {
    return saved == state_names();
  }

  // Whether an element with a gradient of 0 keeps its value and its state, so that an update may
  // leave it out.
  virtual bool passes_zeros_over() const { return false; }

  // Changes parameters and state, not gradients. Called without autograd.
  virtual void update(const Update& update) const = 0;

  // By what the gradients of a parameter are divided in gradient statistics. `state` is that of an
  // updated parameter. Ones by default.
  virtual Preconditioner preconditioner(const ParameterState& /*state*/) const { return {}; }

 protected:
  UpdateRule() = default;
  UpdateRule(const UpdateRule&) = default;
  UpdateRule& operator=(const UpdateRule&) = default;
};

std::unique_ptr<UpdateRule> make_update_rule(OptimizerSpec::Kind kind,
                                             const OptimizerSettings& settings);

}  // namespace adaptdl
