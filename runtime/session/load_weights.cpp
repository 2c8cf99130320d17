#include "runtime/session/load_weights.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/job/weight_match.h"
#include "core/job/weights_file.h"
#include "runtime/archive/tensor_types.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

at::Tensor tensor_of(const StoredTensor& stored, const std::string& path) {
  const auto found = type_named(stored.dtype);
  if (!found) {
    fail("{}: the tensor {} has the type {}, which is not supported; save it with another type",
         path, stored.name, stored.dtype);
  }
  const at::ScalarType type = *found;
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

void add_wanted(const std::vector<NamedTensor>& tensors, ModelTensor::Kind kind,
                std::vector<NamedTensor>& live, std::vector<ModelTensor>& wanted) {
  for (const auto& named : tensors) {
    const at::ScalarType type = named.tensor.scalar_type();
    // A type that no file has fits none.
    const std::string_view known = dtype_name(type);
    wanted.push_back({named.name, known.empty() ? at::toString(type) : std::string(known),
                      named.tensor.sizes().vec(), kind});
    live.push_back(named);
  }
}

}  // namespace

LoadedWeights load_weights(Program& program, const FromSpec& from, const std::string& folder) {
  std::vector<NamedTensor> live;
  std::vector<ModelTensor> wanted;
  add_wanted(program.parameters(), ModelTensor::Kind::parameter, live, wanted);
  add_wanted(program.buffers(), ModelTensor::Kind::buffer, live, wanted);
  add_wanted(program.frozen(), ModelTensor::Kind::frozen, live, wanted);
  const WeightsFile file = open_weights(join_path(folder, from.path));
  const WeightMatch match = match_weights(wanted, file, from);
  std::vector<at::Tensor> sources;
  for (const auto& [to, which] : match.pairs) {
    sources.push_back(tensor_of(file.tensors[which], file.path));
  }
  LoadedWeights loaded{file.path, match.pairs.size(), match.kept, match.unused, {}};
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < sources.size(); ++i) {
    const size_t to = match.pairs[i].first;
    at::Tensor target = live[to].tensor.detach();
    const bool frozen = wanted[to].kind == ModelTensor::Kind::frozen;
    // The program has those anyway, on each replica.
    if (frozen && at::equal(target, sources[i].to(target.options()))) continue;
    target.copy_(sources[i]);
    if (frozen) loaded.frozen.push_back(wanted[to].name);
  }
  return loaded;
}

}  // namespace adaptdl
