#include "runtime/optim/fused.h"

#include <utility>
#include <vector>

#include "runtime/optim/apply_rule.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

std::vector<at::Tensor> gradients_of(const Update& update) {
  std::vector<at::Tensor> gradients;
  for (size_t i = 0; i < update.gradients.size(); ++i) {
    gradients.push_back(rules::gradient_of(update, i));
  }
  return gradients;
}

void bump_versions(const Update& update) {
  for (const at::Tensor& each : update.parameters) rules::bump_version(each);
}

}  // namespace

bool can_fuse(const Update& update) {
  return !update.parameters.empty() && update.parameters.front().is_cuda() && alike(update);
}

bool alike(const Update& update) {
  if (update.parameters.empty()) return true;
  const at::Tensor& first = update.parameters.front();
  const auto as_first = [&](const at::Tensor& tensor) {
    return tensor.device() == first.device() && tensor.scalar_type() == first.scalar_type();
  };
  for (size_t i = 0; i < update.parameters.size(); ++i) {
    const at::Tensor& parameter = update.parameters[i];
    if (!as_first(parameter) || !as_first(update.gradients[i])) return false;
    if (!parameter.is_non_overlapping_and_dense()) return false;
    for (const auto& of_all : update.state) {
      if (!as_first(of_all[i]) || of_all[i].strides() != parameter.strides()) return false;
    }
  }
  return true;
}

void fused_adam(const Update& update, const OptimizerSettings& settings, double beta1,
                bool decoupled) {
  // They have a counter each; it is the same one here, and only read.
  const at::Tensor step =
      at::full({}, static_cast<double>(update.step),
               at::TensorOptions(at::kFloat).device(update.parameters.front().device()));
  const std::vector<at::Tensor> steps(update.parameters.size(), step);
  const auto largest = settings.amsgrad ? update.state.at(2) : std::vector<at::Tensor>();
  // One of two overloads each: the rate is a number.
  const auto run = [&](auto&& fused) {
    fused(update.parameters, gradients_of(update), update.state.at(0), update.state.at(1), largest,
          steps, update.lr, beta1, settings.beta2, settings.weight_decay, settings.eps,
          settings.amsgrad, /*maximize=*/false);
  };
  if (decoupled) {
    run([](auto&&... all) { at::_fused_adamw_(std::forward<decltype(all)>(all)...); });
  } else {
    run([](auto&&... all) { at::_fused_adam_(std::forward<decltype(all)>(all)...); });
  }
  bump_versions(update);
}

void fused_sgd(const Update& update, const OptimizerSettings& settings, double momentum) {
  const auto buffers = update.state.empty() ? std::vector<at::Tensor>() : update.state.front();
  at::_fused_sgd_(update.parameters, gradients_of(update), buffers, settings.weight_decay, momentum,
                  update.lr, settings.dampening, settings.nesterov, /*maximize=*/false,
                  update.first);
  bump_versions(update);
}

}  // namespace adaptdl
