#pragma once

// The interface of an optimizer's arithmetic: what it keeps for a parameter, and how it updates it.
// The runtime does the rest for every optimizer: groups, learning rates, clipping, and the state's
// way into checkpoints and to new replicas. Its own optimizers implement it; a program brings
// another one by Program::update_rule().

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "adaptdl/named_tensor.h"

namespace adaptdl {

// How a learning rate follows the batch: by the gain measured from the gradients (AdaScale) or its
// square root (AdamScale), by the batch's ratio to the initial one or its square root.
enum class ScalingRule { adascale, adamscale, linear, sqrt };

// What a scaling rule of the program's own knows of a step.
struct BatchScale {
  double scale = 1;             // the step's batch / the initial one, > 0
  double gain = 1;              // iterations that the step is worth for the group, by AdaScale
  double progress = 0;          // scale-invariant iterations before the step
  double epoch_iterations = 1;  // iterations of an epoch: samples / initial batch
  int group = 0;                // 0: parameters in none of optimizer.groups; i: its i-th entry
};

// The parameters of an entry of the settings' optimizer.groups, or those in none.
struct OptimizerGroup {
  std::string match;                    // the entry's pattern; "" = in none
  std::vector<std::string> parameters;  // names
  double lr = 0, weight_decay = 0;      // of the settings
};

// Parameters that are updated by one call: of one group, after equally many updates.
struct Update {
  std::vector<at::Tensor> parameters, gradients;  // one gradient for each
  std::vector<std::vector<at::Tensor>> state;     // state[k][i]: state_names()[k] of parameter i
  int64_t step = 1;                // how many updates this one makes for each of them
  bool first = false;              // the state is new
  double lr = 0;                   // after schedule and scaling rule
  std::optional<double> momentum;  // of the schedule one_cycle, in place of the rule's own
};

struct ParameterState {
  int64_t steps = 0;  // updates of this parameter
  std::vector<NamedTensor> tensors;
};

// The divisor of gradients in Adam-like optimizers: sqrt(exp_avg_sq / (1 - beta2^steps)) + eps;
// ones during the first five steps. Gradient norms are computed after this division (Pollux's
// treatment of preconditioned optimizers).
struct Preconditioner {
  at::Tensor exp_avg_sq;  // aliases the live state; undefined: ones
  double beta2 = 0, eps = 0;
  int64_t steps = 0;  // updates included in exp_avg_sq
};

// Of one parameter group. The training thread makes all calls. All replicas make the same ones with
// the same numbers, so equal arguments must give bitwise equal results, and everything that lasts
// from one update to the next must be in the state tensors.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;

  // Tensors like the parameter, kept from one update to the next; in checkpoints under these names.
  virtual std::vector<std::string> state_names() const { return {}; }
  // What their elements are before the first update.
  virtual double initial_state() const { return 0; }
  // Whether training can go on from a saved state with these names. If they are not state_names(),
  // the next update drops that state and begins a new one.
  virtual bool accepts(const std::vector<std::string>& saved) const {
    return saved == state_names();
  }

  // By what the learning rate follows the batch, unless the settings' `rule` says. An optimizer
  // that divides a gradient by its recent size, or takes its sign, moves further with a larger
  // batch anyway, and needs adamscale.
  virtual ScalingRule scaling_rule() const { return ScalingRule::adascale; }

  // Whether an element with a gradient of 0 keeps its value and its state, so that an update may
  // leave it out. Then sparse gradients stay sparse: of a parameter that has one, update() gets
  // only its rows.
  virtual bool passes_zeros_over() const { return false; }

  // Changes parameters and state in place, not gradients. Called without autograd.
  virtual void update(const Update& update) const = 0;

  // By what the gradients of a parameter are divided in gradient statistics. `state` is that of an
  // updated parameter. Ones by default.
  virtual Preconditioner preconditioner(const ParameterState& /*state*/) const { return {}; }

 protected:
  UpdateRule() = default;
  UpdateRule(const UpdateRule&) = default;
  UpdateRule& operator=(const UpdateRule&) = default;
};

}  // namespace adaptdl
