#include "core/job/weights_export.h"

#include <functional>
#include <map>

#include "core/base/durable_file.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/formats/safetensors.h"
#include "core/formats/zip_writer.h"
#include "core/job/archive_tensors.h"

namespace adaptdl {
namespace {

using Write = std::function<void(std::string_view bytes)>;

void write_elements(const StoredTensor& tensor, const Write& write) {
  if (tensor.contiguous()) {
    write({reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()});
  } else {
    write(dense_bytes(tensor));
  }
}

void write_safetensors(const WeightsFile& weights, const Write& write) {
  std::vector<SafeTensor> tensors;
  for (const StoredTensor& tensor : weights.tensors) {
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape, 0, tensor.size()});
  }
  write(safetensors_header(tensors, weights.path));
  for (const StoredTensor& tensor : weights.tensors) write_elements(tensor, write);
}

// A pickle of protocol 2, in the opcodes that torch.load(weights_only=True) knows.
class StateDictPickle {
 public:
  StateDictPickle() { out_ = std::string("\x80\x02") + kOrderedDict + "("; }

  void add(const StoredTensor& tensor, const std::string& storage) {
    const TorchType* type = find_torch_dtype(tensor.dtype);
    if (type == nullptr) fail("{} has the type {}, which torch lacks", tensor.name, tensor.dtype);
    if (type->dtype.starts_with('q')) {
      fail(
          "{} has the type {}: a dictionary of plain tensors would lose its scale; dequantize the "
          "model before it is saved",
          tensor.name, tensor.dtype);
    }
    text(tensor.name);
    out_ += "ctorch._utils\n_rebuild_tensor_v2\n((";
    text("storage");
    out_ += fmt::format("c{}\n", type->storage);
    text(storage);
    text("cpu");
    integer(static_cast<int64_t>(tensor.size() / tensor.element_bytes));
    out_ += "tQ";
    integer(0);
    integers(tensor.shape);
    integers(dense_strides(tensor.shape));
    out_ += "\x89" + std::string(kOrderedDict) + "tR";  // no gradient, no hooks
  }

  std::string finish() { return out_ + "u."; }

 private:
  static constexpr const char* kOrderedDict = "ccollections\nOrderedDict\n)R";

  void little_endian(uint64_t value, int width) {
    for (int i = 0; i < width; ++i) out_ += static_cast<char>((value >> (8 * i)) & 0xff);
  }
  void text(const std::string& value) {
    out_ += 'X';
    little_endian(value.size(), 4);
    out_ += value;
  }
  void integer(int64_t value) {
    out_ += "\x8a\x08";  // of 8 bytes
    little_endian(static_cast<uint64_t>(value), 8);
  }
  void integers(const std::vector<int64_t>& values) {
    out_ += '(';
    for (const int64_t value : values) integer(value);
    out_ += 't';
  }

  std::string out_;
};

void write_state_dict(const WeightsFile& weights, const Write& write) {
  StateDictPickle pickle;
  std::map<std::string, std::string> storages;  // name of a tensor -> its storage
  std::vector<std::pair<std::string, const StoredTensor*>> written;
  for (const StoredTensor& tensor : weights.tensors) {
    std::string storage = std::to_string(written.size());
    const auto shared = storages.find(tensor.same_as);
    if (shared != storages.end()) {
      storage = shared->second;
    } else {
      written.emplace_back(storage, &tensor);
    }
    storages[tensor.name] = storage;
    pickle.add(tensor, storage);
  }
  ZipWriter zip(write);
  zip.add("archive/data.pkl", pickle.finish());
  zip.add("archive/byteorder", "little");
  for (const auto& [storage, tensor] : written) {
    const std::string name = "archive/data/" + storage;
    if (tensor->contiguous()) {
      zip.add(name, {reinterpret_cast<const char*>(tensor->bytes.data()), tensor->bytes.size()});
    } else {
      zip.add(name, dense_bytes(*tensor));
    }
  }
  zip.add("archive/version", "3\n");
  zip.finish();
}

}  // namespace

WeightsFormat weights_format(const std::string& path) {
  if (path.ends_with(".safetensors")) return WeightsFormat::safetensors;
  if (path.ends_with(".pt") || path.ends_with(".pth")) return WeightsFormat::state_dict;
  throw UsageError(
      fmt::format("{}: unknown format; use a name that ends in .safetensors, .pt or .pth", path));
}

void export_weights(const WeightsFile& weights, WeightsFormat format, const std::string& path) {
  DurableFile file(followed_links(path));
  const Write write = [&](std::string_view bytes) { file.write(bytes); };
  if (format == WeightsFormat::safetensors) {
    write_safetensors(weights, write);
  } else {
    write_state_dict(weights, write);
  }
  file.commit();
}

}  // namespace adaptdl
