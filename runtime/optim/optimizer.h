#pragma once

// A program's optimizer: parameter groups by name, a learning-rate factor for each step, clipping,
// and the state as a flat list of tensors for transfer and checkpoints. The arithmetic is behind
// UpdateRule.

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "adaptdl/named_tensor.h"
#include "core/job/training_spec.h"
#include "runtime/optim/update_rule.h"

namespace adaptdl {

// Not thread-safe. As in PyTorch, step() leaves parameters without a gradient, and their state, as
// they are: without weight decay, too. A sparse gradient updates only its rows.
class Optimizer {
 public:
  // As Program::update_rule().
  using ProgramRule = std::function<std::unique_ptr<UpdateRule>(const OptimizerGroup& group)>;

  // `parameters` are leaves that require gradients. Each belongs to the first group of `spec` whose
  // glob matches its name, else to the defaults. Throws Error if a group matches no parameter, or
  // if `spec` wants the program's rule and there is none.
  Optimizer(const OptimizerSpec& spec, std::vector<NamedTensor> parameters,
            const ProgramRule& program_rule = {});
  ~Optimizer();

  int group_count() const { return static_cast<int>(base_lr_.size()); }
  int group_of(size_t parameter) const { return group_of_[parameter]; }
  // As BatchScale::group: 0 is the group of the parameters that no entry of the settings matches,
  // which may not exist, i that of the i-th entry.
  int entry_of(int group) const { return entry_of_[static_cast<size_t>(group)]; }

  // Learning rate of a group before schedule and scaling rule.
  double base_lr(int group) const { return base_lr_[group]; }

  // By which it follows the batch, unless the settings name another one.
  TrainingSpec::ScalingRule scaling_rule(int group) const;

  // Whether the gradient may be a sparse one, coalesced, with one sparse dimension.
  bool takes_rows(size_t parameter) const {
    return rules_[group_of_[parameter]]->passes_zeros_over();
  }

  // Updates the parameters from their gradients, which are clipped as the spec says. The learning
  // rate of group g is base_lr(g) * lr_factors[g]. `momentum` replaces the settings' momentum, or
  // beta1, of all groups in this step.
  void step(const std::vector<double>& lr_factors, std::optional<double> momentum = {});

  // Of optimizers that divide by the root of averaged squares (Adam, AdamW, NAdam, LAMB); empty for
  // others and before the first step.
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
  std::vector<Update> updates_of(size_t group);
  void update_rows(size_t parameter, double lr);
  void clip() const;
  bool make_state(size_t parameter);
  at::Tensor take_zeros(size_t parameter);

  OptimizerSpec spec_;
  std::vector<NamedTensor> parameters_;
  std::vector<int> group_of_;
  std::vector<ParameterState> states_;          // by parameter
  std::vector<std::vector<at::Tensor>> spare_;  // by parameter; or empty
  std::vector<std::vector<size_t>> members_;    // by group
  std::vector<int> entry_of_;                   // by group
  std::vector<double> base_lr_;                 // by group
  std::vector<std::unique_ptr<UpdateRule>> rules_;
};

}  // namespace adaptdl
