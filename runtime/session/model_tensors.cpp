#include "runtime/session/model_tensors.h"

#include "runtime/parallel/tensor_math.h"

namespace adaptdl {

std::vector<NamedTensor> model_tensors(Program& program) {
  std::vector<NamedTensor> all;
  for (auto& named : program.parameters()) {
    all.push_back({kParameterPrefix + named.name, named.tensor});
  }
  for (auto& named : program.buffers()) all.push_back({kBufferPrefix + named.name, named.tensor});
  return all;
}

std::set<std::string> not_finite(const std::vector<NamedTensor>& tensors) {
  std::set<std::string> names;
  for (const auto& named : tensors) {
    if (!all_finite(named.tensor)) names.insert(named.name);
  }
  return names;
}

}  // namespace adaptdl
