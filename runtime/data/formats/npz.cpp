#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/formats/zip.h"
#include "runtime/data/formats/readers.h"

namespace adaptdl::data {
namespace {

constexpr uint64_t kMaxUnpacked = uint64_t{4} << 30;

const ZipMember& choose(const ZipReader& zip, const std::string& path, const std::string& key) {
  if (!key.empty()) {
    if (const ZipMember* member = zip.find(key + ".npy")) return *member;
    if (const ZipMember* member = zip.find(key)) return *member;
  } else if (zip.members().size() == 1) {
    return zip.members().front();
  }
  std::string names;
  for (const ZipMember& member : zip.members()) {
    if (names.size() > 400) {
      names += ", ...";
      break;
    }
    names += (names.empty() ? "" : ", ") + file_stem(member.name);
  }
  if (key.empty()) {
    fail("{}: holds {} arrays ({}); choose one with `key`", path, zip.members().size(), names);
  }
  fail("{}: holds no array \"{}\"; it holds {}", path, key, names.empty() ? "none" : names);
}

}  // namespace

Array read_npz(const std::string& path, const std::string& key) {
  auto file = std::make_shared<const MappedFile>(path);
  const ZipReader zip(file->bytes(), path);
  const ZipMember& member = choose(zip, path, key);
  const std::string name = path + ":" + file_stem(member.name);
  if (member.stored()) return read_npy(zip.stored_bytes(member), name, file);
  if (member.size > kMaxUnpacked) {
    fail(
        "{}: compressed array of {} bytes is too large to unpack into memory; save it with "
        "numpy.savez or numpy.save",
        name, member.size);
  }
  auto unpacked = std::make_shared<const std::string>(zip.read(member, kMaxUnpacked));
  return read_npy(std::as_bytes(std::span(*unpacked)), name, unpacked);
}

}  // namespace adaptdl::data
