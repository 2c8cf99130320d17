// Every optimizer's rule: its state's names, and its numbers for one update.
//
// Of the scaling rules: where noise rules, a larger batch moves an optimizer that divides a
// gradient by its recent size, or takes its sign, further by the root of the batch's scale, and the
// rate has to rise only by the other root (arXiv 2205.10287, of Adam and RMSprop; LAMB's authors
// scale by the root, too). AdaptDL takes AdaScale for all but Adam and AdamW.

#include "runtime/optim/update_rule.h"

#include <cmath>

#include "core/base/error.h"
#include "runtime/optim/apply_rule.h"
#include "runtime/optim/fused.h"

namespace adaptdl {
namespace {

using Settings = OptimizerSettings;

// 1 - beta^step
double bias_correction(double beta, int64_t step) {
  return 1 - std::pow(beta, static_cast<double>(step));
}

class SgdRule : public UpdateRule {
 public:
  explicit SgdRule(const Settings& settings) : s_(settings) {}

  std::vector<std::string> state_names() const override {
    if (s_.momentum == 0) return {};
    return {"momentum_buffer"};
  }
  // Momentum can be switched on and off: a new buffer begins with the next gradient.
  bool accepts(const std::vector<std::string>& saved) const override {
    return saved.empty() || saved == std::vector<std::string>{"momentum_buffer"};
  }
  bool passes_zeros_over() const override { return s_.momentum == 0 && s_.weight_decay == 0; }

  void update(const Update& update) const override {
    const double momentum = s_.momentum == 0 ? 0 : update.momentum.value_or(s_.momentum);
    // A fused update with buffers needs a momentum.
    if (can_fuse(update) && (momentum > 0 || s_.momentum == 0)) {
      return fused_sgd(update, s_, momentum);
    }
    if (s_.momentum == 0) {
      rules::Sgd<false> rule;
      rule.lr = update.lr;
      rule.weight_decay = s_.weight_decay;
      return apply(rule, update);
    }
    rules::Sgd<true> rule;
    rule.lr = update.lr;
    rule.weight_decay = s_.weight_decay;
    rule.momentum = momentum;
    rule.taken = update.first ? 1 : 1 - s_.dampening;
    rule.of_buffer = s_.nesterov ? rule.momentum : 1;
    rule.of_gradient = s_.nesterov ? 1 : 0;
    apply(rule, update);
  }

 private:
  Settings s_;
};

// What Adam, AdamW, NAdam and LAMB share.
class MomentsRule : public UpdateRule {
 public:
  MomentsRule(const Settings& settings, double eps) : s_(settings) {
    if (s_.eps == 0) s_.eps = eps;
  }

  std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }
  ScalingRule scaling_rule() const override { return ScalingRule::adamscale; }

  Preconditioner preconditioner(const ParameterState& state) const override {
    return {state.tensors.at(1).tensor, s_.beta2, s_.eps, state.steps};
  }

 protected:
  double beta1(const Update& update) const { return update.momentum.value_or(s_.beta1); }
  // 1 - beta1^step
  double mean_correction(const Update& update) const {
    return bias_correction(beta1(update), update.step);
  }
  rules::Moments moments(const Update& update) const { return {beta1(update), s_.beta2}; }
  rules::Denominator denominator(int64_t step) const {
    return {1 / std::sqrt(bias_correction(s_.beta2, step)), s_.eps};
  }
  // What decoupled weight decay leaves of a parameter.
  double kept(const Update& update) const { return 1 - update.lr * s_.weight_decay; }

  Settings s_;
};

class AdamRule : public MomentsRule {
 public:
  AdamRule(const Settings& settings, bool decoupled)
      : MomentsRule(settings, 1e-8), decoupled_(decoupled) {}

  std::vector<std::string> state_names() const override {
    auto names = MomentsRule::state_names();
    if (s_.amsgrad) names.emplace_back("max_exp_avg_sq");
    return names;
  }

  void update(const Update& update) const override {
    if (can_fuse(update)) return fused_adam(update, s_, beta1(update), decoupled_);
    s_.amsgrad ? apply(rule<true>(update), update) : apply(rule<false>(update), update);
  }

 private:
  template <bool amsgrad>
  rules::Adam<amsgrad> rule(const Update& update) const {
    rules::Adam<amsgrad> rule;
    rule.kept = decoupled_ ? kept(update) : 1;
    rule.weight_decay = decoupled_ ? 0 : s_.weight_decay;
    rule.moments = moments(update);
    rule.denominator = denominator(update.step);
    rule.step_size = update.lr / mean_correction(update);
    return rule;
  }

  bool decoupled_;
};

// Its momentum is its own function of the step: Update::momentum does not concern it.
class NadamRule : public MomentsRule {
 public:
  explicit NadamRule(const Settings& settings) : MomentsRule(settings, 1e-8) {}

  void update(const Update& update) const override {
    const bool decoupled = s_.decoupled_weight_decay;
    rules::Nadam rule;
    rule.kept = decoupled ? kept(update) : 1;
    rule.weight_decay = decoupled ? 0 : s_.weight_decay;
    rule.moments = {s_.beta1, s_.beta2};
    rule.denominator = denominator(update.step);
    const double product = momentum_product(update.step);
    const double now = momentum(update.step), next = momentum(update.step + 1);
    rule.of_gradient = update.lr * (1 - now) / (1 - product);
    rule.of_mean = update.lr * next / (1 - product * next);
    apply(rule, update);
  }

 private:
  double momentum(int64_t step) const {
    return s_.beta1 * (1 - 0.5 * std::pow(0.96, static_cast<double>(step) * s_.momentum_decay));
  }

  // Of the momenta of steps 1 to `step`. It is below beta1^step, and soon too small to change 1.
  double momentum_product(int64_t step) const {
    double product = 1;
    for (int64_t i = 1; i <= step && product > 1e-20; ++i) product *= momentum(i);
    return product;
  }
};

class LambRule : public MomentsRule {
 public:
  explicit LambRule(const Settings& settings) : MomentsRule(settings, 1e-6) {}

  void update(const Update& update) const override {
    rules::Lamb rule;
    rule.lr = update.lr;
    rule.weight_decay = s_.weight_decay;
    rule.moments = moments(update);
    rule.denominator = denominator(update.step);
    rule.mean_correction = 1 / mean_correction(update);
    apply(rule, update);
  }
};

class RmspropRule : public UpdateRule {
 public:
  explicit RmspropRule(const Settings& settings) : s_(settings) {
    if (s_.eps == 0) s_.eps = 1e-8;
  }

  std::vector<std::string> state_names() const override {
    std::vector<std::string> names = {"square_avg"};
    if (s_.momentum > 0) names.emplace_back("momentum_buffer");
    if (s_.centered) names.emplace_back("grad_avg");
    return names;
  }
  ScalingRule scaling_rule() const override { return ScalingRule::adamscale; }

  void update(const Update& update) const override {
    if (s_.momentum > 0) {
      s_.centered ? run<true, true>(update) : run<true, false>(update);
    } else {
      s_.centered ? run<false, true>(update) : run<false, false>(update);
    }
  }

 private:
  template <bool has_momentum, bool centered>
  void run(const Update& update) const {
    rules::Rmsprop<has_momentum, centered> rule;
    rule.lr = update.lr;
    rule.weight_decay = s_.weight_decay;
    rule.alpha = s_.alpha;
    rule.eps = s_.eps;
    rule.momentum = update.momentum.value_or(s_.momentum);
    apply(rule, update);
  }

  Settings s_;
};

class AdagradRule : public UpdateRule {
 public:
  explicit AdagradRule(const Settings& settings) : s_(settings) {
    if (s_.eps == 0) s_.eps = 1e-10;
  }

  std::vector<std::string> state_names() const override { return {"sum"}; }
  double initial_state() const override { return s_.initial_accumulator; }
  bool passes_zeros_over() const override { return s_.weight_decay == 0; }

  void update(const Update& update) const override {
    rules::Adagrad rule;
    rule.rate = update.lr / (1 + static_cast<double>(update.step - 1) * s_.lr_decay);
    rule.weight_decay = s_.weight_decay;
    rule.eps = s_.eps;
    apply(rule, update);
  }

 private:
  Settings s_;
};

class AdadeltaRule : public UpdateRule {
 public:
  explicit AdadeltaRule(const Settings& settings) : s_(settings) {
    if (s_.eps == 0) s_.eps = 1e-6;
  }

  std::vector<std::string> state_names() const override { return {"square_avg", "acc_delta"}; }
  ScalingRule scaling_rule() const override { return ScalingRule::adamscale; }

  void update(const Update& update) const override {
    rules::Adadelta rule;
    rule.lr = update.lr;
    rule.weight_decay = s_.weight_decay;
    rule.rho = s_.rho;
    rule.eps = s_.eps;
    apply(rule, update);
  }

 private:
  Settings s_;
};

class LionRule : public UpdateRule {
 public:
  explicit LionRule(const Settings& settings) : s_(settings) {}

  std::vector<std::string> state_names() const override { return {"exp_avg"}; }
  ScalingRule scaling_rule() const override { return ScalingRule::adamscale; }

  void update(const Update& update) const override {
    rules::Lion rule;
    rule.lr = update.lr;
    rule.kept = 1 - update.lr * s_.weight_decay;
    rule.beta1 = update.momentum.value_or(s_.beta1);
    rule.beta2 = s_.beta2;
    apply(rule, update);
  }

 private:
  Settings s_;
};

}  // namespace

std::unique_ptr<UpdateRule> make_update_rule(OptimizerSpec::Kind kind, const Settings& settings) {
  using Kind = OptimizerSpec::Kind;
  switch (kind) {
    case Kind::sgd:
      return std::make_unique<SgdRule>(settings);
    case Kind::adam:
      return std::make_unique<AdamRule>(settings, /*decoupled=*/false);
    case Kind::adamw:
      return std::make_unique<AdamRule>(settings, /*decoupled=*/true);
    case Kind::nadam:
      return std::make_unique<NadamRule>(settings);
    case Kind::rmsprop:
      return std::make_unique<RmspropRule>(settings);
    case Kind::adagrad:
      return std::make_unique<AdagradRule>(settings);
    case Kind::adadelta:
      return std::make_unique<AdadeltaRule>(settings);
    case Kind::lamb:
      return std::make_unique<LambRule>(settings);
    case Kind::lion:
      return std::make_unique<LionRule>(settings);
    case Kind::program:
      break;
  }
  check_failed("optimizer kind", __FILE__, __LINE__);
}

}  // namespace adaptdl
