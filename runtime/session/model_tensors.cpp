#include "runtime/session/model_tensors.h"

namespace adaptdl {

std::vector<NamedTensor> model_tensors(Program& program) {
  std::vector<NamedTensor> all;
  for (auto& named : program.parameters()) {
    all.push_back({kParameterPrefix + named.name, named.tensor});
  }
  for (auto& named : program.buffers()) all.push_back({kBufferPrefix + named.name, named.tensor});
  return all;
}

}  // namespace adaptdl
