#include "runtime/session/load_weights.h"

#include <algorithm>

#include "core/base/files.h"
#include "core/job/weight_match.h"
#include "core/job/weights_file.h"
#include "runtime/archive/tensor_types.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

at::Tensor tensor_of(const StoredTensor& stored) {
  const at::ScalarType type = scalar_type(data::parse_dtype(stored.dtype, stored.name));
  const auto address = reinterpret_cast<uintptr_t>(stored.bytes.data());
  if (address % stored.element_bytes == 0) {
    return at::from_blob(const_cast<std::byte*>(stored.bytes.data()), stored.shape, stored.strides,
                         at::dtype(type));
  }
  at::Tensor copy = at::empty(stored.shape, at::dtype(type));
  const std::string dense = dense_bytes(stored);
  std::copy_n(dense.data(), dense.size(), static_cast<char*>(copy.data_ptr()));
  return copy;
}

}  // namespace

LoadedWeights load_weights(Program& program, const FromSpec& from, const std::string& folder) {
  std::vector<NamedTensor> live = program.parameters();
  for (const auto& buffer : program.buffers()) live.push_back(buffer);
  const WeightsFile file = open_weights(join_path(folder, from.path));
  std::vector<ModelTensor> wanted;
  for (const auto& [name, tensor] : live) {
    const auto type = data_type(tensor.scalar_type(), name);
    wanted.push_back({name, std::string(data::name_of(type)), tensor.sizes().vec()});
  }
  const WeightMatch match = match_weights(wanted, file, from);
  std::vector<at::Tensor> sources;
  for (const auto& [to, which] : match.pairs) sources.push_back(tensor_of(file.tensors[which]));
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < sources.size(); ++i) {
    live[match.pairs[i].first].tensor.detach().copy_(sources[i]);
  }
  return {file.path, match.pairs.size(), match.kept, match.unused};
}

}  // namespace adaptdl
