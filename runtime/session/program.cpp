#include "adaptdl/program.h"

#include <set>

#include "core/base/error.h"
#include "runtime/torch_compat.h"

namespace adaptdl {

std::optional<double> Program::lr_factor(const BatchScale&) {
  return {};
}

std::map<std::string, at::Tensor> Program::validation_step(const std::vector<at::Tensor>&) {
  fail("this program has no validation step");
}

std::unique_ptr<UpdateRule> Program::update_rule(const OptimizerGroup&) {
  return nullptr;
}

std::vector<NamedTensor> distinct(const std::vector<NamedTensor>& tensors) {
  std::set<const void*> seen;
  std::vector<NamedTensor> result;
  for (const auto& named : tensors) {
    if (seen.insert(named.tensor.unsafeGetTensorImpl()).second) result.push_back(named);
  }
  return result;
}

}  // namespace adaptdl
