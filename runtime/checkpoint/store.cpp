#include "runtime/checkpoint/store.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "core/base/clock.h"
#include "core/base/crc32c.h"

namespace adaptdl {
namespace {

constexpr const char* kManifest = "manifest.json";
constexpr const char* kData = "data.bin";
// Folders that are being written or removed; the process at it holds a lock on the folder.
constexpr const char* kTemporary = ".partial-";
constexpr size_t kMaxManifestBytes = 64u << 20;
constexpr size_t kChunk = 4u << 20;  // checksummed while in cache, then written

std::string step_name(int64_t step) {
  return fmt::format("step-{:012}", step);
}

bool is_step_name(const std::string& name) {
  return name.size() == 17 && name.starts_with("step-") &&
         std::all_of(name.begin() + 5, name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_temporary_name(const std::string& name) {
  return name.starts_with(kTemporary);
}

// A new folder under a temporary name, locked while this object lives, then removed unless renamed.
class PartialFolder {
 public:
  explicit PartialFolder(const std::string& directory) {
    // Whoever clears leftovers may take the folder between its creation and its lock.
    for (int attempt = 0; attempt < 100; ++attempt) {
      std::string name = join_path(directory, std::string(kTemporary) + "XXXXXX");
      if (mkdtemp(name.data()) == nullptr) fail_errno(errno, name + ": cannot create the folder");
      path_ = name;
      lock_ = Fd(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      if (!lock_) continue;
      // A file system without locks has no other writer to fear but a killed one's leftovers.
      ::flock(lock_.get(), LOCK_EX | LOCK_NB);
      struct stat held = {}, there = {};
      if (::fstat(lock_.get(), &held) == 0 && ::stat(name.c_str(), &there) == 0 &&
          held.st_ino == there.st_ino) {
        ::chmod(name.c_str(), 0755);
        return;
      }
    }
    fail("{}: cannot create a folder in it: it is removed again and again", directory);
  }
  PartialFolder(const PartialFolder&) = delete;
  PartialFolder& operator=(const PartialFolder&) = delete;
  ~PartialFolder() {
    try {
      remove_tree(path_);
    } catch (const Error&) {
      // The next write tries again.
    }
  }

  const std::string& path() const { return path_; }

  // Gives the folder its final name; what had that name is then here, and goes with this object.
  void become(const std::string& target) {
    if (::rename(path_.c_str(), target.c_str()) == 0) return;
    if (errno != EEXIST && errno != ENOTEMPTY) fail_errno(errno, target + ": cannot rename to it");
    if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0)
      return;
    // No such call on this file system: for an instant the older checkpoints are the newest.
    const std::string aside = path_ + ".old";
    if (::rename(target.c_str(), aside.c_str()) != 0 ||
        ::rename(path_.c_str(), target.c_str()) != 0) {
      fail_errno(errno, target + ": cannot rename to it");
    }
    remove_tree(aside);
  }

 private:
  std::string path_;
  Fd lock_;
};

void sync_file(int fd, const std::string& path) {
  if (::fsync(fd) != 0) fail_errno(errno, path + ": cannot bring it to disk");
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Writes data.bin and lists what is in it.
Manifest write_data(const std::string& folder, CheckpointHeader header,
                    const std::vector<TensorView>& tensors) {
  Manifest manifest;
  manifest.header = std::move(header);
  const std::string path = join_path(folder, kData);
  const Fd fd = open_file(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
  const std::string padding(kCheckpointAlignment, '\0');
  uint64_t offset = 0;
  for (const TensorView& tensor : tensors) {
    const uint64_t gap =
        (kCheckpointAlignment - offset % kCheckpointAlignment) % kCheckpointAlignment;
    write_all(fd.get(), std::string_view(padding).substr(0, gap), path);
    offset += gap;
    uint32_t crc = 0;
    for (size_t done = 0; done < tensor.bytes.size();) {
      const size_t size = std::min(kChunk, tensor.bytes.size() - done);
      const auto chunk = tensor.bytes.subspan(done, size);
      crc = crc32c(chunk, crc);
      write_all(fd.get(), as_text(chunk), path);
      // Spreads the disk's work, so that the fsync at the end is short; only a hint.
      ::sync_file_range(fd.get(), static_cast<off64_t>(offset + done), static_cast<off64_t>(size),
                        SYNC_FILE_RANGE_WRITE);
      done += size;
    }
    manifest.tensors.push_back(
        {tensor.name, tensor.dtype, tensor.shape, kData, offset, tensor.bytes.size(), crc});
    offset += tensor.bytes.size();
  }
  sync_file(fd.get(), path);
  manifest.files.push_back({kData, offset});
  return manifest;
}

void require_regular_file(const std::string& path) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0) fail_errno(errno, path);
  if (!S_ISREG(status.st_mode)) fail("{}: is not a regular file", path);
}

Manifest read_manifest(const std::string& folder) {
  const std::string path = join_path(folder, kManifest);
  require_regular_file(path);
  Manifest manifest = parse_manifest(read_file(path, kMaxManifestBytes), path);
  if (step_name(manifest.header.step) != file_name(folder)) {
    fail("{}: is of step {}; the folder's name says otherwise", path, manifest.header.step);
  }
  return manifest;
}

LoadedCheckpoint load_verified(const std::string& folder) {
  Manifest manifest = read_manifest(folder);
  LoadedCheckpoint loaded;
  loaded.path = folder;
  loaded.header = std::move(manifest.header);
  std::map<std::string, std::span<const std::byte>> contents;
  for (const DataFile& file : manifest.files) {
    const std::string path = join_path(folder, file.name);
    require_regular_file(path);
    auto mapped = std::make_shared<const MappedFile>(path);
    if (mapped->bytes().size() != file.bytes) {
      fail("{}: has {} bytes, its manifest says {}", path, mapped->bytes().size(), file.bytes);
    }
    contents[file.name] = mapped->bytes();
    loaded.files.push_back(std::move(mapped));
  }
  for (ManifestTensor& tensor : manifest.tensors) {
    const auto bytes = contents.at(tensor.file).subspan(tensor.offset, tensor.bytes);
    if (crc32c(bytes) != tensor.crc32c) {
      fail("{}: the checksum of {} differs: the file was damaged", join_path(folder, tensor.file),
           tensor.name);
    }
    loaded.tensors.push_back(
        {std::move(tensor.name), std::move(tensor.dtype), std::move(tensor.shape), bytes});
  }
  return loaded;
}

}  // namespace

const TensorView* LoadedCheckpoint::find(const std::string& name) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const TensorView& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

CheckpointStore::CheckpointStore(std::string directory, int keep)
    : directory_(std::move(directory)), keep_(keep) {
  ADAPTDL_CHECK(keep >= 1);
}

WrittenCheckpoint CheckpointStore::write(CheckpointHeader header,
                                         const std::vector<TensorView>& tensors) {
  ADAPTDL_CHECK(header.step >= 0 && header.step <= kMaxCheckpointStep);
  const int64_t step = header.step;
  if (header.created.empty()) header.created = rfc3339(std::chrono::system_clock::now());
  make_directories(directory_);
  remove_leftovers();

  WrittenCheckpoint written;
  written.path = join_path(directory_, step_name(step));
  for (const TensorView& tensor : tensors) written.bytes += tensor.bytes.size();
  {
    PartialFolder folder(directory_);
    const Manifest manifest = write_data(folder.path(), std::move(header), tensors);
    const std::string path = join_path(folder.path(), kManifest);
    const Fd fd = open_file(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
    write_all(fd.get(), manifest_text(manifest), path);
    sync_file(fd.get(), path);
    sync_directory(folder.path());
    folder.become(written.path);
    sync_directory(directory_);
  }
  prune(step);
  return written;
}

std::vector<std::string> CheckpointStore::step_folders() const {
  std::vector<std::string> names;
  if (!is_directory(directory_)) return names;
  for (std::string& name : list_directory(directory_)) {
    if (is_step_name(name)) names.push_back(std::move(name));
  }
  std::sort(names.rbegin(), names.rend());
  return names;
}

std::optional<LoadedCheckpoint> CheckpointStore::latest(std::vector<std::string>* problems) const {
  // A writer beside us may remove an old one under our eyes; then there is a newer one.
  for (int attempt = 0; attempt < 10; ++attempt) {
    bool vanished = false;
    std::vector<std::string> passed_over;
    std::optional<LoadedCheckpoint> found;
    for (const std::string& name : step_folders()) {
      const std::string path = join_path(directory_, name);
      try {
        found = load_verified(path);
        break;
      } catch (const NewerCheckpointFormat&) {
        throw;
      } catch (const Error& error) {
        if (!path_exists(path)) {
          vanished = true;
          break;
        }
        passed_over.push_back(fmt::format("checkpoint {} is not usable: {}", name, error.what()));
      }
    }
    if (vanished) continue;
    if (problems != nullptr) {
      problems->insert(problems->end(), passed_over.begin(), passed_over.end());
    }
    return found;
  }
  fail("{}: its checkpoints are removed faster than they can be read", directory_);
}

std::optional<CheckpointHeader> CheckpointStore::peek() const {
  for (const std::string& name : step_folders()) {
    try {
      return read_manifest(join_path(directory_, name)).header;
    } catch (const NewerCheckpointFormat&) {
      throw;
    } catch (const Error&) {
      // latest() says what is wrong with it.
    }
  }
  return std::nullopt;
}

void CheckpointStore::clear() {
  for (const std::string& name : step_folders()) remove_folder(name);
  remove_leftovers();
}

void CheckpointStore::prune(int64_t newest_step) {
  const std::string newest = step_name(newest_step);
  int kept = 0;
  for (const std::string& name : step_folders()) {
    // Names sort as steps do, since all have 12 digits.
    if (name > newest || ++kept > keep_) remove_folder(name);
  }
}

// First away from its name, so that nobody takes a half removed one for a damaged checkpoint.
void CheckpointStore::remove_folder(const std::string& name) {
  try {
    const PartialFolder trash(directory_);
    const std::string from = join_path(directory_, name);
    if (::rename(from.c_str(), join_path(trash.path(), name).c_str()) != 0) {
      fail_errno(errno, from + ": cannot remove it");
    }
  } catch (const Error&) {
    // It costs disk space only; the next write tries again.
  }
}

void CheckpointStore::remove_leftovers() {
  for (const std::string& name : list_directory(directory_)) {
    if (!is_temporary_name(name)) continue;
    const std::string path = join_path(directory_, name);
    const Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    // Locked: somebody is at it.
    if (!fd || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) continue;
    try {
      remove_tree(path);
    } catch (const Error&) {
    }
  }
}

}  // namespace adaptdl
