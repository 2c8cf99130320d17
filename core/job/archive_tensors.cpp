#include "core/job/archive_tensors.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace adaptdl {
namespace {

using ValueKind = PickleValue::Kind;

constexpr uint64_t kMaxPickle = 64u << 20;
constexpr size_t kMaxDimensions = 64;

constexpr TorchType kTorchTypes[] = {
    {"torch\nFloatStorage", "float32", 4},
    {"torch\nDoubleStorage", "float64", 8},
    {"torch\nHalfStorage", "float16", 2},
    {"torch\nBFloat16Storage", "bfloat16", 2},
    {"torch\nLongStorage", "int64", 8},
    {"torch\nIntStorage", "int32", 4},
    {"torch\nShortStorage", "int16", 2},
    {"torch\nCharStorage", "int8", 1},
    {"torch\nByteStorage", "uint8", 1},
    {"torch\nBoolStorage", "bool", 1},
    {"torch\nComplexFloatStorage", "complex64", 8},
    {"torch\nComplexDoubleStorage", "complex128", 16},
    {"torch\nQInt8Storage", "qint8", 1},
    {"torch\nQUInt8Storage", "quint8", 1},
    {"torch\nQInt32Storage", "qint32", 4},
};

// Reads one tensor of a pickle.
class TensorReader {
 public:
  TensorReader(const TorchArchive& archive, const PickleTree& tree, const std::string& name)
      : archive_(archive), tree_(tree), name_(name) {}

  ArchiveTensor run(const PickleValue& value) const {
    const PickleValue& arguments = item(value, 1);
    const bool sound = arguments.kind == ValueKind::tuple && arguments.items.size() >= 4 &&
                       item(arguments, 0).kind == ValueKind::persistent;
    if (!sound) refuse("has no storage");
    const PickleValue& storage = item(item(arguments, 0), 0);
    const bool named = storage.kind == ValueKind::tuple && storage.items.size() >= 5 &&
                       item(storage, 1).kind == ValueKind::global &&
                       item(storage, 2).kind == ValueKind::text;
    if (!named) refuse("has no storage");

    ArchiveTensor tensor;
    tensor.name = name_;
    const std::string_view type = item(storage, 1).text;
    const TorchType* element = find_torch_type(type);
    tensor.dtype = element != nullptr ? element->dtype : type.substr(type.rfind('\n') + 1);
    tensor.storage = item(storage, 2).text;
    tensor.offset = integer(item(arguments, 1));
    tensor.shape = integers(item(arguments, 2));
    tensor.strides = integers(item(arguments, 3));
    tensor.requires_grad = arguments.items.size() > 4 &&
                           item(arguments, 4).kind == ValueKind::boolean &&
                           item(arguments, 4).integer != 0;
    const ZipMember* data = archive_.find("data/" + tensor.storage);
    if (data == nullptr) {
      archive_.refuse(fmt::format("the data of the tensor {} are missing", name_));
    }
    const auto size = tensor.strides.size() == tensor.shape.size()
                          ? extent(tensor.shape, tensor.strides, tensor.offset)
                          : std::nullopt;
    const uint64_t element_bytes = element != nullptr ? element->bytes : 1;
    if (!size || size->second > data->size / element_bytes ||
        __builtin_mul_overflow(size->first, element_bytes, &tensor.bytes)) {
      refuse("is larger than its data");
    }
    tensor.elements = size->first;
    if (element == nullptr) tensor.bytes = data->size;
    return tensor;
  }

 private:
  [[noreturn]] void refuse(const char* problem) const {
    archive_.refuse(fmt::format("the tensor {} {}", name_, problem));
  }

  const PickleValue& item(const PickleValue& value, size_t index) const {
    return tree_.at(value.items[index]);
  }

  int64_t integer(const PickleValue& value) const {
    if (value.kind != ValueKind::integer || value.integer < 0) refuse("has an impossible size");
    return value.integer;
  }

  std::vector<int64_t> integers(const PickleValue& value) const {
    if (value.kind != ValueKind::tuple || value.items.size() > kMaxDimensions) {
      refuse("has an impossible shape");
    }
    std::vector<int64_t> numbers;
    for (size_t i = 0; i < value.items.size(); ++i) numbers.push_back(integer(item(value, i)));
    return numbers;
  }

  // The number of elements, and the number of storage elements that the strides require.
  static std::optional<std::pair<uint64_t, uint64_t>> extent(const std::vector<int64_t>& shape,
                                                             const std::vector<int64_t>& strides,
                                                             int64_t offset) {
    int64_t elements = 1, last = offset;
    for (size_t i = 0; i < shape.size(); ++i) {
      int64_t step = 0;
      if (__builtin_mul_overflow(elements, shape[i], &elements)) return std::nullopt;
      if (shape[i] == 0) continue;
      if (__builtin_mul_overflow(shape[i] - 1, strides[i], &step)) return std::nullopt;
      if (__builtin_add_overflow(last, step, &last)) return std::nullopt;
    }
    if (elements == 0) return std::pair<uint64_t, uint64_t>(0, 0);
    return std::pair<uint64_t, uint64_t>(elements, static_cast<uint64_t>(last) + 1);
  }

  const TorchArchive& archive_;
  const PickleTree& tree_;
  const std::string& name_;
};

const TorchType* find_by(std::string_view TorchType::*key, std::string_view value) {
  const auto* found = std::find_if(std::begin(kTorchTypes), std::end(kTorchTypes),
                                   [&](const TorchType& type) { return type.*key == value; });
  return found == std::end(kTorchTypes) ? nullptr : found;
}

}  // namespace

TorchArchive::TorchArchive(std::span<const std::byte> bytes, const std::string& name)
    : path(name), size(bytes.size()), zip(bytes, name) {
  // All names start with the same folder; the one that contains data.pkl.
  for (const ZipMember& member : zip.members()) {
    const size_t slash = member.name.find('/');
    if (slash != std::string::npos && member.name.substr(slash + 1) == "data.pkl") {
      folder = member.name.substr(0, slash + 1);
      return;
    }
  }
  fail("{}: is not a TorchScript archive (it has no data.pkl); make one with torch.jit.save", path);
}

std::string TorchArchive::pickle() const {
  return zip.read(*find("data.pkl"), kMaxPickle);
}

void TorchArchive::refuse(const std::string& problem) const {
  fail("{}: invalid TorchScript archive: {}", path, problem);
}

const TorchType* find_torch_type(std::string_view storage) {
  return find_by(&TorchType::storage, storage);
}

const TorchType* find_torch_dtype(std::string_view dtype) {
  return find_by(&TorchType::dtype, dtype);
}

bool is_tensor(const PickleTree& tree, const PickleValue& value) {
  if (value.kind != ValueKind::call) return false;
  const std::string_view callee = tree.at(value.items[0]).text;
  return callee == "torch._utils\n_rebuild_tensor_v2" || callee == "torch._utils\n_rebuild_qtensor";
}

ArchiveTensor read_tensor(const TorchArchive& archive, const PickleTree& tree,
                          const PickleValue& value, const std::string& name) {
  return TensorReader(archive, tree, name).run(value);
}

}  // namespace adaptdl
