#include "runtime/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <fnmatch.h>
#include <nlohmann/json.hpp>

#include <torch/nn/utils/clip_grad.h>

#include "core/base/error.h"
#include "runtime/gns/kernels.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

// Of the parameters of one Update: it bounds the memory for intermediate results on a GPU.
constexpr size_t kUpdateBytes = size_t{256} << 20;

std::vector<std::string> names_of(const ParameterState& state) {
  std::vector<std::string> names;
  for (const NamedTensor& named : state.tensors) names.push_back(named.name);
  return names;
}

bool plain_floats(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.scalar_type() == at::kFloat && tensor.is_contiguous();
}

// LibTorch's norm depends on the number of threads: replicas on unlike CPUs would train apart.
void clip_plain_norm(const std::vector<at::Tensor>& gradients, double most) {
  double squares = 0;
  for (const at::Tensor& each : gradients) {
    squares += gns::sum_squares(each.const_data_ptr<float>(), static_cast<size_t>(each.numel()));
  }
  const double factor = std::min(most / (std::sqrt(squares) + 1e-6), 1.0);
  if (factor != 1) at::_foreach_mul_(gradients, factor);
}

void clip_norm(const std::vector<at::Tensor>& parameters, double most) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& each : parameters) {
    if (each.grad().defined()) gradients.push_back(each.grad());
  }
  if (gradients.empty()) return;
  if (std::ranges::all_of(gradients, plain_floats)) return clip_plain_norm(gradients, most);
  const auto on_cpu = [](const at::Tensor& each) { return each.device().is_cpu(); };
  if (std::ranges::any_of(gradients, on_cpu)) {
    torch::nn::utils::clip_grad_norm_(parameters, most);
    return;
  }
  // That waits for the device, and has launches for each parameter.
  const at::Tensor norm = at::stack(at::_foreach_norm(gradients, 2)).norm();
  at::_foreach_mul_(gradients, at::clamp_max(most / (norm + 1e-6), 1));
}

}  // namespace

Optimizer::Optimizer(const OptimizerSpec& spec, std::vector<NamedTensor> parameters,
                     const ProgramRule& program_rule)
    : spec_(spec), parameters_(std::move(parameters)), states_(parameters_.size()) {
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
  for (size_t g = 0; g < members.size(); ++g) {
    if (members[g].empty()) {
      if (g == 0) continue;
      fail("optimizer.groups.{}.match: no parameter is named \"{}\"; the first one is \"{}\"",
           g - 1, spec_.groups[g - 1].match, parameters_.front().name);
    }
    const auto& settings = g == 0 ? spec_.defaults : spec_.groups[g - 1].settings;
    for (const size_t i : members[g]) group_of_[i] = static_cast<int>(base_lr_.size());
    if (spec_.kind == OptimizerSpec::Kind::program) {
      OptimizerGroup group{
          g == 0 ? "" : spec_.groups[g - 1].match, {}, settings.lr, settings.weight_decay};
      for (const size_t i : members[g]) group.parameters.push_back(parameters_[i].name);
      rules_.push_back(program_rule ? program_rule(group) : nullptr);
      if (!rules_.back()) {
        fail("optimizer.kind is program, but the program brings no optimizer (update_rule())");
      }
    } else {
      rules_.push_back(make_update_rule(spec_.kind, settings));
    }
    members_.push_back(std::move(members[g]));
    entry_of_.push_back(static_cast<int>(g));
    base_lr_.push_back(settings.lr);
  }
}

Optimizer::~Optimizer() = default;

TrainingSpec::ScalingRule Optimizer::scaling_rule(int group) const {
  switch (rules_[static_cast<size_t>(group)]->scaling_rule()) {
    case ScalingRule::adascale:
      return TrainingSpec::ScalingRule::adascale;
    case ScalingRule::adamscale:
      return TrainingSpec::ScalingRule::adamscale;
    case ScalingRule::linear:
      return TrainingSpec::ScalingRule::linear;
    case ScalingRule::sqrt:
      break;
  }
  return TrainingSpec::ScalingRule::sqrt;
}

void Optimizer::step(const std::vector<double>& lr_factors, std::optional<double> momentum) {
  ADAPTDL_CHECK(lr_factors.size() == base_lr_.size());
  clip();
  const at::NoGradGuard no_grad;
  for (size_t g = 0; g < members_.size(); ++g) {
    for (Update& update : updates_of(g)) {
      update.lr = base_lr_[g] * lr_factors[g];
      update.momentum = momentum;
      rules_[g]->update(update);
    }
    for (const size_t i : members_[g]) {
      if (parameters_[i].tensor.grad().is_sparse()) update_rows(i, base_lr_[g] * lr_factors[g]);
    }
  }
  spare_.clear();
}

void Optimizer::clip() const {
  if (spec_.clip_norm == 0 && spec_.clip_value == 0) return;
  std::vector<at::Tensor> all;
  for (const auto& parameter : parameters_) {
    const at::Tensor& gradient = parameter.tensor.grad();
    all.push_back(parameter.tensor);
    if (!gradient.is_sparse()) continue;
    // Something with the numbers of the rows as its gradient.
    const at::Tensor values = gradient._values();
    all.back() = at::empty_like(values);
    all.back().mutable_grad() = values;
  }
  if (spec_.clip_value > 0) torch::nn::utils::clip_grad_value_(all, spec_.clip_value);
  if (spec_.clip_norm > 0) clip_norm(all, spec_.clip_norm);
}

std::vector<Update> Optimizer::updates_of(size_t group) {
  std::vector<Update> updates;
  std::vector<size_t> bytes;
  for (const size_t i : members_[group]) {
    const at::Tensor& parameter = parameters_[i].tensor;
    const at::Tensor& gradient = parameter.grad();
    if (!gradient.defined() || gradient.is_sparse()) continue;
    const bool first = make_state(i);
    ParameterState& state = states_[i];
    ++state.steps;
    size_t at = 0;
    while (at < updates.size() && (updates[at].step != state.steps || updates[at].first != first ||
                                   bytes[at] >= kUpdateBytes)) {
      ++at;
    }
    if (at == updates.size()) {
      updates.emplace_back();
      updates[at].step = state.steps;
      updates[at].first = first;
      bytes.push_back(0);
    }
    bytes[at] += parameter.nbytes();
    updates[at].parameters.push_back(parameter);
    updates[at].gradients.push_back(gradient);
    updates[at].state.resize(state.tensors.size());
    for (size_t k = 0; k < state.tensors.size(); ++k) {
      updates[at].state[k].push_back(state.tensors[k].tensor);
    }
  }
  return updates;
}

// As a whole parameter is updated, on copies of the rows.
void Optimizer::update_rows(size_t parameter, double lr) {
  ADAPTDL_CHECK(takes_rows(parameter));
  const at::Tensor whole = parameters_[parameter].tensor.detach();
  const at::Tensor gradient = parameters_[parameter].tensor.grad();
  const at::Tensor ids = gradient._indices()[0];
  Update update;
  update.lr = lr;
  update.first = make_state(parameter);
  ParameterState& state = states_[parameter];
  update.step = ++state.steps;
  update.parameters = {whole.index_select(0, ids)};
  update.gradients = {gradient._values()};
  for (size_t k = 0; k < state.tensors.size(); ++k) {
    update.state.push_back({state.tensors[k].tensor.index_select(0, ids)});
  }
  rules_[group_of_[parameter]]->update(update);
  parameters_[parameter].tensor.index_copy_(0, ids, update.parameters[0]);
  for (size_t k = 0; k < state.tensors.size(); ++k) {
    state.tensors[k].tensor.index_copy_(0, ids, update.state[k][0]);
  }
}

// Makes the state that the parameter's first update needs; true if it had none.
bool Optimizer::make_state(size_t parameter) {
  ParameterState& state = states_[parameter];
  const UpdateRule& rule = *rules_[group_of_[parameter]];
  const auto names = rule.state_names();
  const bool same = std::ranges::equal(state.tensors, names, {}, &NamedTensor::name);
  if (same && (state.steps > 0 || !names.empty())) return false;
  state = {};  // of an optimizer that kept something else
  for (const std::string& name : names) {
    state.tensors.push_back({name, take_zeros(parameter)});
    if (rule.initial_state() != 0) state.tensors.back().tensor.fill_(rule.initial_state());
  }
  return true;
}

Preconditioner Optimizer::preconditioner(size_t parameter) const {
  const ParameterState& state = states_[parameter];
  if (state.steps == 0) return {};
  return rules_[group_of_[parameter]]->preconditioner(state);
}

std::vector<NamedTensor> Optimizer::state_tensors() const {
  std::vector<NamedTensor> result;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    for (const auto& [name, tensor] : states_[i].tensors) {
      result.push_back({parameters_[i].name + "/" + name, tensor});
    }
  }
  return result;
}

nlohmann::json Optimizer::counters() const {
  auto result = nlohmann::json::array();
  for (const ParameterState& state : states_) {
    if (state.steps == 0 && state.tensors.empty()) {
      result.push_back(nullptr);
    } else {
      result.push_back({{"step", state.steps}, {"tensors", names_of(state)}});
    }
  }
  return result;
}

void Optimizer::prepare_state(const nlohmann::json& counters) {
  if (!counters.is_array() || counters.size() != parameters_.size()) {
    fail("the saved optimizer state belongs to another program: it has {} parameters, not {}",
         counters.size(), parameters_.size());
  }
  for (size_t i = 0; i < parameters_.size(); ++i) {
    states_[i] = {};
    if (counters[i].is_null()) continue;
    const auto saved = counters[i].at("tensors").get<std::vector<std::string>>();
    const UpdateRule& rule = *rules_[group_of_[i]];
    if (!rule.accepts(saved)) {
      fail(
          "the saved optimizer state {} does not match this optimizer, which keeps {}: restore the "
          "previous optimizer settings, or train from the beginning with --fresh",
          nlohmann::json(saved).dump(), nlohmann::json(rule.state_names()).dump());
    }
    states_[i].steps = counters[i].at("step").get<int64_t>();
    for (const std::string& name : saved) states_[i].tensors.push_back({name, take_zeros(i)});
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
    const size_t count = rules_[group_of_[i]]->state_names().size();
    for (size_t k = 0; k < count; ++k) {
      spare_[i].push_back(at::zeros_like(parameters_[i].tensor.detach()));
    }
  }
}

}  // namespace adaptdl
