#include "runtime/archive/saved_tensor.h"

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string_view>

#include <torch/csrc/jit/serialization/unpickler.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/formats/zip.h"
#include "runtime/archive/tensor_types.h"
#include "runtime/torch_compat.h"

namespace adaptdl {
namespace {

constexpr uint64_t kMaxPickle = 64u << 20;

// A file written by torch.save, read in place.
class SavedFile {
 public:
  explicit SavedFile(const std::string& path)
      : path_(path), file_(std::make_shared<const MappedFile>(path)), zip_(file_->bytes(), path) {
    constexpr std::string_view kPickle = "/data.pkl";
    for (const ZipMember& member : zip_.members()) {
      if (!member.name.ends_with(kPickle)) continue;
      folder_ = member.name.substr(0, member.name.size() - kPickle.size());
      pickle_ = zip_.read(member, kMaxPickle);
      const ZipMember* order = zip_.find(folder_ + "/byteorder");
      if (order != nullptr && zip_.read(*order, 64) != "little") {
        fail("{}: was saved on a machine with another byte order; save it again on this machine",
             path);
      }
      return;
    }
    fail("{}: not a tensor written by torch.save: it has no data.pkl", path);
  }

  at::IValue load() {
    size_t place = 0;
    const auto read = [&](char* to, size_t wanted) {
      const size_t count = std::min(wanted, pickle_.size() - place);
      std::copy_n(pickle_.data() + place, count, to);
      place += count;
      return count;
    };
    const auto elements = [this](const std::string& name) { return map(name); };
    torch::jit::Unpickler unpickler(read, nullptr, nullptr, elements, at::Device(at::kCPU));
    return unpickler.parse_ivalue();
  }

  // The unpickler does not check the sizes in the pickle.
  void check_size(const at::Tensor& tensor) const {
    const auto found = sizes_.find(tensor.storage().data());
    const size_t there = found == sizes_.end() ? 0 : found->second;
    if (tensor.storage().nbytes() > there) {
      fail("{}: truncated or damaged: it promises {} bytes of elements, but holds {}", path_,
           tensor.storage().nbytes(), there);
    }
  }

 private:
  at::DataPtr map(const std::string& name) {
    const ZipMember* member = zip_.find(folder_ + "/data/" + name);
    if (member == nullptr || !member->stored()) {
      fail("{}: is damaged: its elements {} are missing or compressed", path_, name);
    }
    const std::span<const std::byte> bytes = zip_.stored_bytes(*member);
    // Never written: a column copies from it.
    void* data = const_cast<std::byte*>(bytes.data());
    sizes_[data] = bytes.size();
    auto owner = std::make_unique<std::shared_ptr<const MappedFile>>(file_);
    return {data, owner.release(),
            [](void* held) { delete static_cast<std::shared_ptr<const MappedFile>*>(held); },
            at::Device(at::kCPU)};
  }

  std::string path_;
  std::shared_ptr<const MappedFile> file_;
  ZipReader zip_;
  std::string folder_, pickle_;
  std::map<const void*, size_t> sizes_;
};

std::string first_line(const char* text) {
  const std::string_view all(text);
  return std::string(all.substr(0, all.find('\n')));
}

bool is_zip(const std::string& path) {
  return MappedFile(path).text().starts_with("PK");
}

}  // namespace

data::Array read_saved_tensor(const std::string& path, const std::string& key) {
  if (!is_zip(path)) {
    fail(
        "{}: not a tensor written by torch.save, or written before PyTorch 1.6; load it with torch "
        "and save it again",
        path);
  }
  SavedFile file(path);
  at::IValue value;
  try {
    value = file.load();
  } catch (const Error&) {
    throw;
  } catch (const c10::Error& error) {
    fail("{}: not a tensor written by torch.save ({})", path,
         first_line(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    fail("{}: not a tensor written by torch.save ({})", path, first_line(error.what()));
  }
  if (value.isGenericDict()) {
    if (key.empty()) fail("{}: holds a dictionary; name the entry with `key`", path);
    const auto entries = value.toGenericDict();
    const auto found = entries.find(key);
    if (found == entries.end()) fail("{}: has no entry \"{}\"", path, key);
    value = found->value();
  } else if (!key.empty()) {
    fail("{}: not a dictionary, so it has no entry \"{}\"; remove `key`", path, key);
  }
  if (!value.isTensor()) {
    fail("{}: holds a {}, not a tensor; save a tensor or a dictionary of tensors", path,
         value.tagKind());
  }
  at::Tensor tensor = value.toTensor().detach();
  if (tensor.layout() != at::kStrided) fail("{}: holds a sparse tensor; save a dense one", path);
  if (tensor.numel() > 0) file.check_size(tensor);
  data::Array array;
  array.name = path;
  array.dtype = data_type(tensor.scalar_type(), path);
  tensor = tensor.contiguous();
  array.shape = tensor.sizes().vec();
  array.owner = std::make_shared<at::Tensor>(tensor);
  array.bytes = static_cast<const std::byte*>(tensor.const_data_ptr());
  return array;
}

}  // namespace adaptdl
