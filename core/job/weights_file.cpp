#include "core/job/weights_file.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/formats/safetensors.h"
#include "core/job/archive_tensors.h"

namespace adaptdl {
namespace {

using ValueKind = PickleValue::Kind;

constexpr size_t kMaxEntries = 100'000;

StoredTensor stored(const TorchArchive& archive, const ArchiveTensor& tensor) {
  const std::string where = fmt::format("{}: the tensor {}", archive.path, tensor.name);
  const TorchType* type = find_torch_dtype(tensor.dtype);
  if (type == nullptr) fail("{} has the type {}, which is not supported", where, tensor.dtype);
  const ZipMember* data = archive.find("data/" + tensor.storage);
  if (!data->stored()) fail("{} is compressed; write the file with torch", where);
  if (tensor.bytes > data->size) fail("{} repeats its elements; save a contiguous copy", where);
  uint64_t extent = tensor.elements == 0 ? 0 : 1;
  for (size_t i = 0; i < tensor.shape.size() && extent > 0; ++i) {
    extent += static_cast<uint64_t>(tensor.shape[i] - 1) * static_cast<uint64_t>(tensor.strides[i]);
  }
  StoredTensor result{tensor.name, tensor.dtype, tensor.shape,  tensor.strides,
                      {},          type->bytes,  tensor.same_as};
  if (extent > 0) {
    result.bytes = archive.zip.stored_bytes(*data).subspan(
        static_cast<uint64_t>(tensor.offset) * type->bytes, extent * type->bytes);
  }
  result.frozen = tensor.kind == ArchiveTensor::Kind::parameter && !tensor.requires_grad;
  return result;
}

void check_byte_order(const TorchArchive& archive) {
  const ZipMember* order = archive.find("byteorder");
  if (order != nullptr && archive.zip.read(*order, 64) != "little") {
    fail("{}: was saved on a machine with another byte order; save it again on this machine",
         archive.path);
  }
}

std::vector<StoredTensor> read_model(const TorchArchive& archive,
                                     std::span<const std::byte> bytes) {
  std::vector<StoredTensor> result;
  for (const ArchiveTensor& tensor : inspect_archive(bytes, archive.path).tensors) {
    if (tensor.kind != ArchiveTensor::Kind::attribute) result.push_back(stored(archive, tensor));
  }
  return result;
}

// A dictionary of tensors; an OrderedDict is a call, to which entries and perhaps a state are
// added.
std::vector<StoredTensor> read_dictionary(const TorchArchive& archive) {
  const std::string pickle = archive.pickle();
  const PickleTree tree(pickle, archive.path + ": data.pkl");
  const PickleValue& root = tree.root();
  const bool ordered =
      root.kind == ValueKind::call && tree.at(root.items[0]).text == "collections\nOrderedDict";
  if (root.kind != ValueKind::dict && !ordered) {
    fail("{}: holds neither a model nor a dictionary of tensors; save model.state_dict()",
         archive.path);
  }
  std::vector<StoredTensor> result;
  for (size_t i = ordered ? 2 : 0; i + 1 < root.items.size(); i += 2) {
    const PickleValue& key = tree.at(root.items[i]);
    const PickleValue& value = tree.at(root.items[i + 1]);
    if (key.kind != ValueKind::text || !is_tensor(tree, value)) {
      fail("{}: entry {} of its dictionary is not a tensor with a name; save model.state_dict()",
           archive.path, i / 2);
    }
    if (result.size() >= kMaxEntries) fail("{}: more than {} tensors", archive.path, kMaxEntries);
    result.push_back(stored(archive, read_tensor(archive, tree, value, std::string(key.text))));
  }
  return result;
}

std::vector<StoredTensor> read_safetensors(std::span<const std::byte> bytes,
                                           const std::string& name) {
  std::vector<StoredTensor> result;
  for (SafeTensor& tensor : parse_safetensors(bytes, name)) {
    uint64_t elements = 1;
    for (const int64_t size : tensor.shape) elements *= static_cast<uint64_t>(size);
    StoredTensor stored;
    stored.name = std::move(tensor.name);
    stored.dtype = std::move(tensor.dtype);
    stored.bytes = bytes.subspan(tensor.offset, tensor.size);
    stored.strides = dense_strides(tensor.shape);
    stored.shape = std::move(tensor.shape);
    stored.element_bytes = elements == 0 ? 1 : tensor.size / elements;
    result.push_back(std::move(stored));
  }
  return result;
}

}  // namespace

std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  // The sizes of an empty tensor may be too large to be multiplied.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return strides;
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

bool StoredTensor::contiguous() const {
  if (size() == 0) return true;
  const std::vector<int64_t> dense = dense_strides(shape);
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1 && strides[i] != dense[i]) return false;
  }
  return true;
}

uint64_t StoredTensor::size() const {
  uint64_t bytes = element_bytes;
  for (const int64_t size : shape) bytes *= static_cast<uint64_t>(size);
  return bytes;
}

std::vector<StoredTensor> read_weights(std::span<const std::byte> bytes, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with("PK")) return read_safetensors(bytes, name);
  const TorchArchive archive(bytes, name);
  check_byte_order(archive);
  const auto& members = archive.zip.members();
  const bool model = std::any_of(members.begin(), members.end(), [&](const ZipMember& member) {
    return member.name.starts_with(archive.folder + "code/");
  });
  return model ? read_model(archive, bytes) : read_dictionary(archive);
}

WeightsFile open_weights(const std::string& path) {
  WeightsFile weights;
  weights.path = path;
  weights.file = std::make_shared<const MappedFile>(path);
  weights.tensors = read_weights(weights.file->bytes(), path);
  return weights;
}

std::string dense_bytes(const StoredTensor& tensor) {
  const auto* from = reinterpret_cast<const char*>(tensor.bytes.data());
  if (tensor.contiguous()) return {from, tensor.bytes.size()};
  std::string result;
  result.reserve(tensor.size());
  std::vector<int64_t> index(tensor.shape.size(), 0);
  for (;;) {
    int64_t at = 0;
    for (size_t i = 0; i < index.size(); ++i) at += index[i] * tensor.strides[i];
    result.append(from + static_cast<uint64_t>(at) * tensor.element_bytes, tensor.element_bytes);
    size_t axis = index.size();
    while (axis > 0 && ++index[axis - 1] == tensor.shape[axis - 1]) index[--axis] = 0;
    if (axis == 0) return result;
  }
}

}  // namespace adaptdl
