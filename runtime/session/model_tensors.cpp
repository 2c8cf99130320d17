#include "runtime/session/model_tensors.h"

#include <algorithm>

#include "core/base/error.h"
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

std::vector<NamedTensor> frozen_tensors(Program& program, const std::vector<std::string>& names) {
  std::vector<NamedTensor> result;
  if (names.empty()) return result;
  const std::vector<NamedTensor> frozen = program.frozen();
  for (const auto& name : names) {
    const auto found = std::find_if(frozen.begin(), frozen.end(),
                                    [&](const NamedTensor& named) { return named.name == name; });
    if (found == frozen.end()) {
      fail(
          "the program has no frozen tensor {}, which this run has loaded from a file; go on with "
          "the program that began it",
          name);
    }
    result.push_back({kFrozenPrefix + name, found->tensor});
  }
  return result;
}

std::set<std::string> not_finite(const std::vector<NamedTensor>& tensors) {
  std::set<std::string> names;
  for (const auto& named : tensors) {
    if (!all_finite(named.tensor)) names.insert(named.name);
  }
  return names;
}

}  // namespace adaptdl
