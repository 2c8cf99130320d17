#include "runtime/optim/optimizer.h"

#include <algorithm>
#include <fnmatch.h>
#include <nlohmann/json.hpp>

#include <torch/nn/utils/clip_grad.h>

#include "core/base/error.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

using Kind = OptimizerSpec::Kind;
namespace optim = torch::optim;

std::unique_ptr<optim::OptimizerOptions> make_options(Kind kind, const OptimizerSettings& s) {
  switch (kind) {
    case Kind::sgd:
      return std::make_unique<optim::SGDOptions>(optim::SGDOptions(s.lr)
                                                     .momentum(s.momentum)
                                                     .dampening(s.dampening)
                                                     .weight_decay(s.weight_decay)
                                                     .nesterov(s.nesterov));
    case Kind::adam: {
      auto options = optim::AdamOptions(s.lr);
      options.betas({s.beta1, s.beta2}).weight_decay(s.weight_decay).amsgrad(s.amsgrad);
      if (s.eps > 0) options.eps(s.eps);
      return std::make_unique<optim::AdamOptions>(options);
    }
    case Kind::adamw: {
      auto options = optim::AdamWOptions(s.lr);
      options.betas({s.beta1, s.beta2}).weight_decay(s.weight_decay).amsgrad(s.amsgrad);
      if (s.eps > 0) options.eps(s.eps);
      return std::make_unique<optim::AdamWOptions>(options);
    }
    case Kind::rmsprop: {
      auto options = optim::RMSpropOptions(s.lr);
      options.alpha(s.alpha).momentum(s.momentum).centered(s.centered).weight_decay(s.weight_decay);
      if (s.eps > 0) options.eps(s.eps);
      return std::make_unique<optim::RMSpropOptions>(options);
    }
    case Kind::adagrad: {
      auto options = optim::AdagradOptions(s.lr);
      options.lr_decay(s.lr_decay).initial_accumulator_value(s.initial_accumulator);
      options.weight_decay(s.weight_decay);
      if (s.eps > 0) options.eps(s.eps);
      return std::make_unique<optim::AdagradOptions>(options);
    }
  }
  check_failed("optimizer kind", __FILE__, __LINE__);
}

std::unique_ptr<optim::Optimizer> make_optimizer(
    Kind kind, const OptimizerSettings& defaults,
    const std::vector<optim::OptimizerParamGroup>& groups) {
  const auto options = make_options(kind, defaults);
  switch (kind) {
    case Kind::sgd:
      return std::make_unique<optim::SGD>(groups, static_cast<optim::SGDOptions&>(*options));
    case Kind::adam:
      return std::make_unique<optim::Adam>(groups, static_cast<optim::AdamOptions&>(*options));
    case Kind::adamw:
      return std::make_unique<optim::AdamW>(groups, static_cast<optim::AdamWOptions&>(*options));
    case Kind::rmsprop:
      return std::make_unique<optim::RMSprop>(groups,
                                              static_cast<optim::RMSpropOptions&>(*options));
    case Kind::adagrad:
      return std::make_unique<optim::Adagrad>(groups,
                                              static_cast<optim::AdagradOptions&>(*options));
  }
  check_failed("optimizer kind", __FILE__, __LINE__);
}

// The state of one parameter, independent of the optimizer.
struct StateView {
  std::vector<std::pair<const char*, at::Tensor*>> tensors;
  int64_t step = 0;
};

StateView view_state(Kind kind, optim::OptimizerParamState& state) {
  switch (kind) {
    case Kind::sgd: {
      auto& s = static_cast<optim::SGDParamState&>(state);
      return {{{"momentum_buffer", &s.momentum_buffer()}}, 0};
    }
    case Kind::adam: {
      auto& s = static_cast<optim::AdamParamState&>(state);
      return {{{"exp_avg", &s.exp_avg()},
               {"exp_avg_sq", &s.exp_avg_sq()},
               {"max_exp_avg_sq", &s.max_exp_avg_sq()}},
              s.step()};
    }
    case Kind::adamw: {
      auto& s = static_cast<optim::AdamWParamState&>(state);
      return {{{"exp_avg", &s.exp_avg()},
               {"exp_avg_sq", &s.exp_avg_sq()},
               {"max_exp_avg_sq", &s.max_exp_avg_sq()}},
              s.step()};
    }
    case Kind::rmsprop: {
      auto& s = static_cast<optim::RMSpropParamState&>(state);
      return {{{"square_avg", &s.square_avg()},
               {"momentum_buffer", &s.momentum_buffer()},
               {"grad_avg", &s.grad_avg()}},
              s.step()};
    }
    case Kind::adagrad: {
      auto& s = static_cast<optim::AdagradParamState&>(state);
      return {{{"sum", &s.sum()}}, s.step()};
    }
  }
  check_failed("optimizer kind", __FILE__, __LINE__);
}

// The tensors in a parameter's state after the first step.
std::vector<std::string> names_of_state(Kind kind, const OptimizerSettings& s) {
  std::vector<std::string> names;
  switch (kind) {
    case Kind::sgd:
      if (s.momentum != 0) names = {"momentum_buffer"};
      return names;
    case Kind::adam:
    case Kind::adamw:
      names = {"exp_avg", "exp_avg_sq"};
      if (s.amsgrad) names.push_back("max_exp_avg_sq");
      return names;
    case Kind::rmsprop:
      names = {"square_avg"};
      if (s.momentum > 0) names.push_back("momentum_buffer");
      if (s.centered) names.push_back("grad_avg");
      return names;
    case Kind::adagrad:
      return {"sum"};
  }
  check_failed("optimizer kind", __FILE__, __LINE__);
}

std::unique_ptr<optim::OptimizerParamState> make_state(Kind kind, int64_t step) {
  switch (kind) {
    case Kind::sgd:
      return std::make_unique<optim::SGDParamState>();
    case Kind::adam: {
      auto state = std::make_unique<optim::AdamParamState>();
      state->step(step);
      return state;
    }
    case Kind::adamw: {
      auto state = std::make_unique<optim::AdamWParamState>();
      state->step(step);
      return state;
    }
    case Kind::rmsprop: {
      auto state = std::make_unique<optim::RMSpropParamState>();
      state->step(step);
      return state;
    }
    case Kind::adagrad: {
      auto state = std::make_unique<optim::AdagradParamState>();
      state->step(step);
      return state;
    }
  }
  check_failed("optimizer kind", __FILE__, __LINE__);
}

optim::OptimizerParamState* find_state(optim::Optimizer& optimizer, const at::Tensor& parameter) {
  const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
  return found == optimizer.state().end() ? nullptr : found->second.get();
}

}  // namespace

Optimizer::Optimizer(const OptimizerSpec& spec, std::vector<NamedTensor> parameters)
    : spec_(spec), parameters_(std::move(parameters)) {
  if (parameters_.empty()) fail("the program has no parameter that requires a gradient");
  // Group 0 holds parameters that no pattern matches; an empty group 0 is omitted.
  std::vector<std::vector<size_t>> members(spec_.groups.size() + 1);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    size_t group = 0;
    for (size_t g = 0; g < spec_.groups.size() && group == 0; ++g) {
      if (fnmatch(spec_.groups[g].match.c_str(), parameters_[i].name.c_str(), 0) == 0)
        group = g + 1;
    }
    members[group].push_back(i);
  }
  group_of_.resize(parameters_.size());
  std::vector<optim::OptimizerParamGroup> groups;
  for (size_t g = 0; g < members.size(); ++g) {
    if (members[g].empty()) {
      if (g == 0) continue;
      fail("optimizer.groups.{}.match: no parameter is named \"{}\"; the first one is \"{}\"",
           g - 1, spec_.groups[g - 1].match, parameters_.front().name);
    }
    const auto& settings = g == 0 ? spec_.defaults : spec_.groups[g - 1].settings;
    std::vector<at::Tensor> tensors;
    for (const size_t i : members[g]) {
      tensors.push_back(parameters_[i].tensor);
      group_of_[i] = static_cast<int>(base_lr_.size());
    }
    groups.emplace_back(std::move(tensors), make_options(spec_.kind, settings));
    base_lr_.push_back(settings.lr);
    settings_.push_back(settings);
  }
  optimizer_ = make_optimizer(spec_.kind,
                              spec_.defaults.lr > 0 ? spec_.defaults : settings_.front(), groups);
}

Optimizer::~Optimizer() = default;

void Optimizer::step(const std::vector<double>& lr_factors) {
  ADAPTDL_CHECK(lr_factors.size() == base_lr_.size());
  spare_.clear();
  auto& groups = optimizer_->param_groups();
  for (size_t g = 0; g < groups.size(); ++g)
    groups[g].options().set_lr(base_lr_[g] * lr_factors[g]);
  if (spec_.clip_norm > 0 || spec_.clip_value > 0) {
    std::vector<at::Tensor> all;
    for (const auto& parameter : parameters_) all.push_back(parameter.tensor);
    if (spec_.clip_value > 0) torch::nn::utils::clip_grad_value_(all, spec_.clip_value);
    if (spec_.clip_norm > 0) torch::nn::utils::clip_grad_norm_(all, spec_.clip_norm);
  }
  optimizer_->step();
}

Preconditioner Optimizer::preconditioner(size_t parameter) const {
  if (spec_.kind != Kind::adam && spec_.kind != Kind::adamw) return {};
  auto* state = find_state(*optimizer_, parameters_[parameter].tensor);
  if (!state) return {};
  const StateView view = view_state(spec_.kind, *state);
  const auto& settings = settings_[group_of_[parameter]];
  return {*view.tensors[1].second, settings.beta2, settings.eps > 0 ? settings.eps : 1e-8,
          view.step};
}

std::vector<NamedTensor> Optimizer::state_tensors() const {
  std::vector<NamedTensor> result;
  for (const auto& parameter : parameters_) {
    auto* state = find_state(*optimizer_, parameter.tensor);
    if (!state) continue;
    for (const auto& [name, tensor] : view_state(spec_.kind, *state).tensors) {
      if (tensor->defined()) result.push_back({parameter.name + "/" + name, *tensor});
    }
  }
  return result;
}

nlohmann::json Optimizer::counters() const {
  auto result = nlohmann::json::array();
  for (const auto& parameter : parameters_) {
    auto* state = find_state(*optimizer_, parameter.tensor);
    if (!state) {
      result.push_back(nullptr);
      continue;
    }
    const StateView view = view_state(spec_.kind, *state);
    auto names = nlohmann::json::array();
    for (const auto& [name, tensor] : view.tensors) {
      if (tensor->defined()) names.push_back(name);
    }
    result.push_back({{"step", view.step}, {"tensors", names}});
  }
  return result;
}

void Optimizer::prepare_state(const nlohmann::json& counters) {
  if (!counters.is_array() || counters.size() != parameters_.size()) {
    fail("the saved optimizer state belongs to another program: it has {} parameters, not {}",
         counters.size(), parameters_.size());
  }
  auto& all = optimizer_->state();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i].tensor;
    all.erase(parameter.unsafeGetTensorImpl());
    if (counters[i].is_null()) continue;
    const auto saved = counters[i].at("tensors").get<std::vector<std::string>>();
    // SGD can drop a saved momentum buffer, and can start without one.
    const auto needed = names_of_state(spec_.kind, settings_[group_of_[i]]);
    const std::vector<std::string> momentum = {"momentum_buffer"};
    if (saved != needed && !(spec_.kind == Kind::sgd && saved == momentum)) {
      fail(
          "the saved optimizer state {} does not match this optimizer, which keeps {}: restore the "
          "previous optimizer settings, or train from the beginning with --fresh",
          nlohmann::json(saved).dump(), nlohmann::json(needed).dump());
    }
    auto state = make_state(spec_.kind, counters[i].at("step").get<int64_t>());
    for (auto& [name, tensor] : view_state(spec_.kind, *state).tensors) {
      if (std::find(saved.begin(), saved.end(), name) != saved.end()) *tensor = take_zeros(i);
    }
    all[parameter.unsafeGetTensorImpl()] = std::move(state);
  }
}

at::Tensor Optimizer::take_zeros(size_t parameter) {
  if (spare_.empty() || spare_[parameter].empty()) {
    return at::zeros_like(parameters_[parameter].tensor.detach());
  }
  at::Tensor zeros = std::move(spare_[parameter].back());
  spare_[parameter].pop_back();
  return zeros;
}

void Optimizer::reserve_state() {
  spare_.assign(parameters_.size(), {});
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const size_t count = names_of_state(spec_.kind, settings_[group_of_[i]]).size();
    for (size_t k = 0; k < count; ++k) {
      spare_[i].push_back(at::zeros_like(parameters_[i].tensor.detach()));
    }
  }
}

}  // namespace adaptdl
