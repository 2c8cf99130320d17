#include "runtime/session/batches.h"

#include <fstream>
#include <iterator>

#include <torch/csrc/jit/serialization/pickle.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

constexpr size_t kMaxTensorFile = size_t{8} << 30;  // read into memory whole

at::ScalarType scalar_type(data::DType type) {
  switch (type) {
    case data::DType::float32:
      return at::kFloat;
    case data::DType::float64:
      return at::kDouble;
    case data::DType::float16:
      return at::kHalf;
    case data::DType::bfloat16:
      return at::kBFloat16;
    case data::DType::int64:
      return at::kLong;
    case data::DType::int32:
      return at::kInt;
    case data::DType::int16:
      return at::kShort;
    case data::DType::int8:
      return at::kChar;
    case data::DType::uint8:
      return at::kByte;
    case data::DType::boolean:
      return at::kBool;
    default:
      fail("a column of type {} cannot be a tensor; set its dtype", data::name_of(type));
  }
}

data::DType data_type(at::ScalarType type, const std::string& path) {
  for (const auto candidate :
       {data::DType::float32, data::DType::float64, data::DType::float16, data::DType::bfloat16,
        data::DType::int64, data::DType::int32, data::DType::int16, data::DType::int8,
        data::DType::uint8, data::DType::boolean}) {
    if (scalar_type(candidate) == type) return candidate;
  }
  fail("{}: tensors of type {} are not supported as data", path, at::toString(type));
}

data::Array read_saved_tensor(const std::string& path, const std::string& key) {
  at::IValue value;
  try {
    const std::string bytes = read_file(path, kMaxTensorFile);
    value = torch::jit::pickle_load(std::vector<char>(bytes.begin(), bytes.end()));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    fail("{}: not a tensor written by torch.save ({})", path, text.substr(0, text.find('\n')));
  }
  if (value.isGenericDict()) {
    if (key.empty()) fail("{}: holds a dictionary; name the entry with `key`", path);
    const auto entries = value.toGenericDict();
    const auto found = entries.find(key);
    if (found == entries.end()) fail("{}: has no entry \"{}\"", path, key);
    value = found->value();
  }
  if (!value.isTensor()) fail("{}: holds a {}, not a tensor", path, value.type()->str());
  const at::Tensor tensor = value.toTensor().cpu().contiguous();
  data::Array array;
  array.name = path;
  array.dtype = data_type(tensor.scalar_type(), path);
  array.shape = tensor.sizes().vec();
  array.owner = std::make_shared<at::Tensor>(tensor);
  array.bytes = static_cast<const std::byte*>(tensor.const_data_ptr());
  return array;
}

}  // namespace

std::vector<at::Tensor> to_tensors(const data::Batch& batch, at::Device device) {
  std::vector<at::Tensor> tensors;
  for (const auto& buffer : batch.columns) {
    const auto options = at::TensorOptions().dtype(scalar_type(buffer.dtype));
    at::Tensor tensor = buffer.bytes == 0 ? at::empty(buffer.shape, options)
                                          : at::from_blob(
                                                buffer.memory.get(), buffer.shape,
                                                [keep = buffer.memory](void*) {}, options);
    tensors.push_back(device.is_cpu() ? tensor : tensor.to(device, /*non_blocking=*/false));
  }
  return tensors;
}

void install_torch_reader() {
  data::set_torch_reader(read_saved_tensor);
}

}  // namespace adaptdl
