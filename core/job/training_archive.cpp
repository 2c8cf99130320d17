#include "core/job/training_archive.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/formats/zip.h"
#include "core/job/archive_code.h"
#include "core/job/pickle.h"

namespace adaptdl {
namespace {

using ValueKind = PickleValue::Kind;

constexpr uint64_t kMaxSettings = 1u << 20;
constexpr uint64_t kMaxPickle = 64u << 20;
constexpr uint64_t kMaxCodeFile = 16u << 20, kMaxCode = 128u << 20;
constexpr size_t kMaxTensors = 100'000, kMaxAttributes = 1'000'000;
constexpr size_t kMaxName = 1024;
constexpr int kMaxDepth = 64;

struct Archive {
  Archive(std::span<const std::byte> bytes, const std::string& name)
      : path(name), size(bytes.size()), zip(bytes, name) {
    // All names start with the same folder; the one that contains data.pkl.
    for (const ZipMember& member : zip.members()) {
      const size_t slash = member.name.find('/');
      if (slash != std::string::npos && member.name.substr(slash + 1) == "data.pkl") {
        folder = member.name.substr(0, slash + 1);
        return;
      }
    }
    fail("{}: is not a TorchScript archive (it has no data.pkl); make one with torch.jit.save",
         path);
  }
  const ZipMember* find(std::string_view name) const {
    return zip.find(folder + std::string(name));
  }

  std::string path;
  uint64_t size;
  ZipReader zip;       // borrows the bytes
  std::string folder;  // "NAME/"
};

struct ElementType {
  std::string_view storage, dtype;
  uint64_t bytes;
};
constexpr ElementType kElementTypes[] = {
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

// Walks the modules of data.pkl.
class ModuleWalk {
 public:
  ModuleWalk(const Archive& archive, const PickleTree& tree, const ArchiveClasses& classes,
             ArchiveSummary& summary)
      : archive_(archive), tree_(tree), classes_(classes), summary_(summary) {}

  void run() {
    const PickleValue& root = tree_.root();
    if (root.kind != ValueKind::object) refuse("its data.pkl contains no module");
    summary_.model = class_name(root);
    if (const auto found = classes_.find(summary_.model); found != classes_.end()) {
      summary_.methods = found->second.methods;
    } else {
      refuse(fmt::format("it has no code for its model {}", summary_.model));
    }
    module(root, "", 0);
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    fail("{}: invalid TorchScript archive: {}", archive_.path, problem);
  }

  const PickleValue& item(const PickleValue& value, size_t index) const {
    return tree_.at(value.items[index]);
  }

  std::string class_name(const PickleValue& object) const {
    std::string name(item(object, 0).text);
    std::replace(name.begin(), name.end(), '\n', '.');
    return name;
  }

  void module(const PickleValue& object, const std::string& prefix, int depth) {
    if (depth > kMaxDepth)
      refuse(fmt::format("its modules are nested more than {} deep", kMaxDepth));
    // Without a state there is nothing to list; with __setstate__ the state is not a dict.
    if (object.items.size() < 3) return;
    const PickleValue& state = item(object, 2);
    if (state.kind != ValueKind::dict) return;
    const auto found = classes_.find(class_name(object));
    const ArchiveClass* known = found == classes_.end() ? nullptr : &found->second;
    for (size_t i = 0; i + 1 < state.items.size(); i += 2) {
      // A module may occur in many places, and a hostile file can nest them.
      if (++attributes_ > kMaxAttributes)
        refuse(fmt::format("it has more than {} attributes", kMaxAttributes));
      const PickleValue& key = item(state, i);
      const PickleValue& value = item(state, i + 1);
      if (key.kind != ValueKind::text) refuse("an attribute's name is not text");
      const std::string name = prefix + std::string(key.text);
      if (name.size() > kMaxName) refuse("an attribute's name is too long");
      if (value.kind == ValueKind::object) {
        module(value, name + ".", depth + 1);
      } else if (is_tensor(value)) {
        tensor(value, name, key.text, known);
      }
    }
  }

  bool is_tensor(const PickleValue& value) const {
    if (value.kind != ValueKind::call) return false;
    const std::string_view callee = item(value, 0).text;
    return callee == "torch._utils\n_rebuild_tensor_v2" ||
           callee == "torch._utils\n_rebuild_qtensor";
  }

  int64_t integer(const PickleValue& value, const std::string& name) const {
    if (value.kind != ValueKind::integer || value.integer < 0) {
      refuse(fmt::format("the tensor {} has an impossible size", name));
    }
    return value.integer;
  }

  std::vector<int64_t> integers(const PickleValue& value, const std::string& name) const {
    if (value.kind != ValueKind::tuple || value.items.size() > 64) {
      refuse(fmt::format("the tensor {} has an impossible shape", name));
    }
    std::vector<int64_t> numbers;
    for (size_t i = 0; i < value.items.size(); ++i)
      numbers.push_back(integer(item(value, i), name));
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

  void tensor(const PickleValue& value, const std::string& name, std::string_view attribute,
              const ArchiveClass* known) {
    if (summary_.tensors.size() >= kMaxTensors) {
      refuse(fmt::format("it has more than {} tensors", kMaxTensors));
    }
    const PickleValue& arguments = item(value, 1);
    const bool sound = arguments.kind == ValueKind::tuple && arguments.items.size() >= 4 &&
                       item(arguments, 0).kind == ValueKind::persistent;
    if (!sound) refuse(fmt::format("the tensor {} has no storage", name));
    const PickleValue& storage = item(item(arguments, 0), 0);
    const bool named = storage.kind == ValueKind::tuple && storage.items.size() >= 5 &&
                       item(storage, 1).kind == ValueKind::global &&
                       item(storage, 2).kind == ValueKind::text;
    if (!named) refuse(fmt::format("the tensor {} has no storage", name));

    ArchiveTensor tensor;
    tensor.name = name;
    const std::string_view type = item(storage, 1).text;
    const auto* element =
        std::find_if(std::begin(kElementTypes), std::end(kElementTypes),
                     [&](const ElementType& candidate) { return candidate.storage == type; });
    const bool known_type = element != std::end(kElementTypes);
    tensor.dtype = known_type ? element->dtype : type.substr(type.rfind('\n') + 1);

    const std::string key(item(storage, 2).text);
    const int64_t offset = integer(item(arguments, 1), name);
    tensor.shape = integers(item(arguments, 2), name);
    const auto strides = integers(item(arguments, 3), name);
    const ZipMember* data = archive_.find("data/" + key);
    if (data == nullptr) refuse(fmt::format("the data of the tensor {} are missing", name));
    const auto size = strides.size() == tensor.shape.size() ? extent(tensor.shape, strides, offset)
                                                            : std::nullopt;
    const uint64_t element_bytes = known_type ? element->bytes : 1;
    if (!size || size->second > data->size / element_bytes ||
        __builtin_mul_overflow(size->first, element_bytes, &tensor.bytes)) {
      refuse(fmt::format("the tensor {} is larger than its data", name));
    }
    if (!known_type) tensor.bytes = data->size;
    if (known != nullptr && known->parameters.contains(attribute)) {
      tensor.kind = ArchiveTensor::Kind::parameter;
    } else if (known != nullptr && known->buffers.contains(attribute)) {
      tensor.kind = ArchiveTensor::Kind::buffer;
    }
    add(std::move(tensor), key, offset, size->first);
  }

  void add(ArchiveTensor tensor, const std::string& key, int64_t offset, uint64_t elements) {
    const auto [first, fresh] = seen_.try_emplace({key, offset, tensor.shape}, tensor.name);
    if (!fresh) {
      tensor.same_as = first->second;
    } else if (tensor.kind == ArchiveTensor::Kind::parameter) {
      summary_.parameter_count += elements;
      summary_.parameter_bytes += tensor.bytes;
    } else if (tensor.kind == ArchiveTensor::Kind::buffer) {
      summary_.buffer_bytes += tensor.bytes;
    }
    summary_.tensors.push_back(std::move(tensor));
  }

  const Archive& archive_;
  const PickleTree& tree_;
  const ArchiveClasses& classes_;
  ArchiveSummary& summary_;
  size_t attributes_ = 0;
  std::map<std::tuple<std::string, int64_t, std::vector<int64_t>>, std::string> seen_;
};

ArchiveClasses read_code(const Archive& archive) {
  const std::string& path = archive.path;
  ArchiveClasses classes;
  const std::string folder = archive.folder + "code/";
  uint64_t total = 0;
  for (const ZipMember& member : archive.zip.members()) {
    if (!member.name.starts_with(folder) || !member.name.ends_with(".py")) continue;
    total += std::min(member.size, kMaxCode + 1);
    if (total > kMaxCode) fail("{}: contains more than {} bytes of code", path, kMaxCode);
    scan_archive_code(std::string_view(member.name).substr(folder.size()),
                      archive.zip.read(member, kMaxCodeFile), classes);
  }
  if (classes.empty()) {
    fail(
        "{}: contains no TorchScript code (torch.save saves only weights); make a training "
        "archive with torch.jit.save(torch.jit.script(model), ...)",
        path);
  }
  return classes;
}

}  // namespace

bool ArchiveSummary::has_method(const std::string& name) const {
  return std::find(methods.begin(), methods.end(), name) != methods.end();
}

std::string read_settings(const std::string& path) {
  const MappedFile file(path);
  const Archive archive(file.bytes(), path);
  const ZipMember* member = archive.find(std::string("extra/") + kSettingsFile);
  if (member == nullptr) {
    fail(
        "{}: contains no settings; save it with torch.jit.save(model, path, _extra_files="
        "{{'{}': settings}}), see adaptdl-train(5)",
        path, kSettingsFile);
  }
  return archive.zip.read(*member, kMaxSettings);
}

ArchiveSummary inspect_archive(const std::string& path) {
  const MappedFile file(path);
  return inspect_archive(file.bytes(), path);
}

ArchiveSummary inspect_archive(std::span<const std::byte> bytes, const std::string& name) {
  const Archive archive(bytes, name);
  ArchiveSummary summary;
  summary.file_bytes = archive.size;
  if (const ZipMember* settings = archive.find(std::string("extra/") + kSettingsFile)) {
    summary.settings = archive.zip.read(*settings, kMaxSettings);
    summary.has_settings = true;
  }
  const ArchiveClasses classes = read_code(archive);
  const std::string pickle = archive.zip.read(*archive.find("data.pkl"), kMaxPickle);
  const PickleTree tree(pickle, name + ": data.pkl");
  ModuleWalk(archive, tree, classes, summary).run();
  return summary;
}

}  // namespace adaptdl
