#include "runtime/data/tar_shards.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <utility>

#include "core/base/error.h"
#include "core/base/file_pattern.h"
#include "core/base/files.h"
#include "runtime/data/formats/tar.h"

namespace adaptdl::data {
namespace {

constexpr size_t kMaxKinds = 256;  // files that are no samples have names of all kinds

// The parts of a member's name; both empty if it belongs to no sample.
struct NameParts {
  std::string_view sample;
  std::string kind;
};

NameParts split_name(std::string_view name) {
  const size_t last = name.rfind('/') + 1;  // 0 without a slash
  const size_t dot = name.find('.', last);
  if (dot == std::string_view::npos || dot == last || dot + 1 == name.size()) return {};
  std::string kind(name.substr(dot + 1));
  for (char& c : kind) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  return {name.substr(0, dot), std::move(kind)};
}

}  // namespace

class TarShards::Members : public Blobs {
 public:
  Members(std::shared_ptr<const TarShards> shards, const Kind& kind)
      : shards_(std::move(shards)), kind_(kind) {}

  int64_t size() const override { return static_cast<int64_t>(kind_.places.size()); }
  uint64_t content() const override { return shards_->digest_.value(); }

  // The member's name is in the file, and only read for a message.
  std::string name(int64_t i) const override {
    const Place& at = place(i);
    const Shard& shard = shards_->shards_[at.shard];
    try {
      const uint64_t begin = at.header;
      const FileBytes headers = read_data_part(shard.path, shard.opened, begin, at.content - begin);
      const auto read = [&](uint64_t offset, std::span<std::byte> out) {
        if (offset - begin > headers.size() || out.size() > headers.size() - (offset - begin)) {
          fail("{}: changed", shard.path);
        }
        std::copy_n(headers.data() + (offset - begin), out.size(), out.data());
      };
      const auto end = static_cast<uint64_t>(shard.opened.st_size);
      if (const auto member = TarReader(read, end, shard.path, begin).next()) {
        return shard.path + ":" + member->name;
      }
    } catch (const Error&) {  // a message is wanted about another error
    }
    return fmt::format("{}: the member at byte {}", shard.path, at.content);
  }

  FileBytes read(int64_t i) const override {
    const Place& at = place(i);
    const Shard& shard = shards_->shards_[at.shard];
    if (at.size > kMaxBlob) {
      fail("{}: has {} bytes; a member may have {}", name(i), at.size, kMaxBlob);
    }
    return read_data_part(shard.path, shard.opened, at.content, at.size);
  }

 private:
  const Place& place(int64_t i) const { return kind_.places[static_cast<size_t>(i)]; }

  std::shared_ptr<const TarShards> shards_;
  const Kind& kind_;
};

TarShards::TarShards(const std::string& pattern, const std::string& folder)
    : name_(join_path(folder, pattern)) {
  for (std::string& path : expand_pattern(pattern, folder)) {
    if (!path_exists(path)) {
      fail("{}: data file not found; a relative path starts at the folder of the training archive",
           path);
    }
    shards_.push_back({std::move(path), {}});
    index(static_cast<uint32_t>(shards_.size() - 1));
  }
  if (samples_ == 0) fail("{}: holds no samples", name_);
}

void TarShards::index(uint32_t shard) {
  const std::string& path = shards_[shard].path;
  const Fd file = open_file(path, O_RDONLY);
  struct stat& status = shards_[shard].opened;
  if (::fstat(file.get(), &status) != 0) fail_errno(errno, path + ": cannot read");
  if (!S_ISREG(status.st_mode)) fail("{}: is not a file", path);
  if (status.st_size == 0) fail("{}: is empty", path);
  digest_.add(file_name(path));
  digest_.add(static_cast<uint64_t>(status.st_size));
  // The kernel would read what follows each header.
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_RANDOM);
  TarReader reader(
      [&](uint64_t offset, std::span<std::byte> out) {
        read_exactly_at(file.get(), out, offset, path);
      },
      static_cast<uint64_t>(status.st_size), path);

  std::string sample;
  while (const std::optional<TarMember> member = reader.next()) {
    const NameParts parts = split_name(member->name);
    if (parts.sample.empty()) continue;
    digest_.add(member->name);
    digest_.add(member->size);
    if (parts.sample != sample) {
      if (!sample.empty()) finish_sample(fmt::format("{}: sample \"{}\"", path, sample));
      sample = parts.sample;
    }
    const auto [found, added] = kinds_.try_emplace(parts.kind);
    Kind& kind = found->second;
    if (added) kind.missing = first_sample_;
    if (kinds_.size() > kMaxKinds) {
      fail("{}: holds more than {} kinds of members; it does not consist of samples", path,
           kMaxKinds);
    }
    if (!kind.missing.empty()) continue;
    if (kind.places.size() > samples_) {
      fail("{}: sample \"{}\" has two members .{}", path, sample, parts.kind);
    }
    kind.places.push_back({member->header, member->content, member->size, shard});
  }
  if (!sample.empty()) finish_sample(fmt::format("{}: sample \"{}\"", path, sample));
}

void TarShards::finish_sample(const std::string& sample) {
  ++samples_;
  if (first_sample_.empty()) first_sample_ = sample;
  for (auto& [name, kind] : kinds_) {
    if (kind.places.size() < samples_ && kind.missing.empty()) kind.missing = sample;
  }
}

std::shared_ptr<const Blobs> TarShards::members(std::shared_ptr<const TarShards> shards,
                                                const std::string& kind) {
  const auto found = shards->kinds_.find(kind);
  if (found == shards->kinds_.end()) {
    std::string names;
    for (const auto& [name, unused] : shards->kinds_) names += (names.empty() ? "." : ", .") + name;
    fail("{}: no sample has a member .{}; there are {}", shards->name_, kind, names);
  }
  if (!found->second.missing.empty()) {
    fail("{} has no member .{}; every sample needs one", found->second.missing, kind);
  }
  return std::make_shared<Members>(shards, found->second);
}

}  // namespace adaptdl::data
