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
#include "core/job/archive_tensors.h"
#include "core/job/pickle.h"

namespace adaptdl {
namespace {

using ValueKind = PickleValue::Kind;

constexpr uint64_t kMaxSettings = 1u << 20, kMaxExtraFile = 1u << 30;
constexpr uint64_t kMaxCodeFile = 16u << 20, kMaxCode = 128u << 20;
constexpr size_t kMaxTensors = 100'000, kMaxAttributes = 1'000'000;
constexpr size_t kMaxName = 1024;
constexpr int kMaxDepth = 64;

// Walks the modules of data.pkl.
class ModuleWalk {
 public:
  ModuleWalk(const TorchArchive& archive, const PickleTree& tree, const ArchiveClasses& classes,
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
  [[noreturn]] void refuse(const std::string& problem) const { archive_.refuse(problem); }

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
      } else if (is_tensor(tree_, value)) {
        tensor(value, name, key.text, known);
      }
    }
  }

  void tensor(const PickleValue& value, const std::string& name, std::string_view attribute,
              const ArchiveClass* known) {
    if (summary_.tensors.size() >= kMaxTensors) {
      refuse(fmt::format("it has more than {} tensors", kMaxTensors));
    }
    ArchiveTensor tensor = read_tensor(archive_, tree_, value, name);
    if (known != nullptr && known->parameters.contains(attribute)) {
      tensor.kind = ArchiveTensor::Kind::parameter;
    } else if (known != nullptr && known->buffers.contains(attribute)) {
      tensor.kind = ArchiveTensor::Kind::buffer;
    }
    add(std::move(tensor));
  }

  void add(ArchiveTensor tensor) {
    const auto [first, fresh] = seen_.try_emplace(
        {tensor.storage, tensor.offset, tensor.shape, tensor.strides, tensor.dtype}, tensor.name);
    if (!fresh) {
      tensor.same_as = first->second;
    } else if (tensor.kind == ArchiveTensor::Kind::parameter) {
      summary_.parameter_count += tensor.elements;
      summary_.parameter_bytes += tensor.bytes;
    } else if (tensor.kind == ArchiveTensor::Kind::buffer) {
      summary_.buffer_bytes += tensor.bytes;
    }
    summary_.tensors.push_back(std::move(tensor));
  }

  const TorchArchive& archive_;
  const PickleTree& tree_;
  const ArchiveClasses& classes_;
  ArchiveSummary& summary_;
  size_t attributes_ = 0;
  // By storage, offset, shape, strides and type: a square matrix and its transpose differ only in
  // their strides.
  using Place =
      std::tuple<std::string, int64_t, std::vector<int64_t>, std::vector<int64_t>, std::string>;
  std::map<Place, std::string> seen_;
};

ArchiveClasses read_code(const TorchArchive& archive) {
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
  const TorchArchive archive(file.bytes(), path);
  const ZipMember* member = archive.find(std::string("extra/") + kSettingsFile);
  if (member == nullptr) {
    fail(
        "{}: contains no settings; save it with torch.jit.save(model, path, _extra_files="
        "{{'{}': settings}}), see adaptdl-train(5)",
        path, kSettingsFile);
  }
  return archive.zip.read(*member, kMaxSettings);
}

std::map<std::string, std::string> read_extra_files(const std::string& path) {
  const MappedFile file(path);
  const TorchArchive archive(file.bytes(), path);
  const std::string folder = archive.folder + "extra/";
  std::map<std::string, std::string> files;
  for (const ZipMember& member : archive.zip.members()) {
    if (!member.name.starts_with(folder)) continue;
    files[member.name.substr(folder.size())] = archive.zip.read(member, kMaxExtraFile);
  }
  return files;
}

ArchiveSummary inspect_archive(const std::string& path) {
  const MappedFile file(path);
  return inspect_archive(file.bytes(), path);
}

ArchiveSummary inspect_archive(std::span<const std::byte> bytes, const std::string& name) {
  const TorchArchive archive(bytes, name);
  ArchiveSummary summary;
  summary.file_bytes = archive.size;
  if (const ZipMember* settings = archive.find(std::string("extra/") + kSettingsFile)) {
    summary.settings = archive.zip.read(*settings, kMaxSettings);
    summary.has_settings = true;
  }
  const ArchiveClasses classes = read_code(archive);
  const std::string pickle = archive.pickle();
  const PickleTree tree(pickle, name + ": data.pkl");
  ModuleWalk(archive, tree, classes, summary).run();
  return summary;
}

}  // namespace adaptdl
