#include "runtime/checkpoint/store.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <functional>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "core/base/clock.h"
#include "core/base/durable_file.h"
#include "core/formats/crc32c.h"
#include "runtime/checkpoint/finite.h"
#include "runtime/checkpoint/partial_folder.h"

namespace adaptdl {
namespace {

constexpr const char* kData = "data.bin";
constexpr size_t kChunk = 4u << 20;  // bytes; checksummed while in cache, then written
// A concurrent writer may remove an old checkpoint while we read it; then there is a newer one.
constexpr int kReadAttempts = 10;

[[noreturn]] void fail_vanishing(const std::string& directory) {
  fail("{}: another process removes checkpoints faster than they can be read", directory);
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Writes data.bin and returns its manifest.
CheckpointManifest write_data(const std::string& folder, CheckpointHeader header,
                              const std::vector<TensorView>& tensors) {
  CheckpointManifest manifest;
  manifest.header = std::move(header);
  const std::string path = join_path(folder, kData);
  Fd fd = open_file(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
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
      if (tensor.finite && !all_finite(tensor.dtype, chunk)) throw NotFinite(tensor.name);
      write_all(fd.get(), as_text(chunk), path);
      // Starts writeback early, so that the fsync at the end is short; only a hint.
      ::sync_file_range(fd.get(), static_cast<off64_t>(offset + done), static_cast<off64_t>(size),
                        SYNC_FILE_RANGE_WRITE);
      done += size;
    }
    manifest.tensors.push_back(
        {tensor.name, tensor.dtype, tensor.shape, kData, offset, tensor.bytes.size(), crc});
    offset += tensor.bytes.size();
  }
  sync_and_close(std::move(fd), path);
  manifest.files.push_back({kData, offset});
  return manifest;
}

// A defect of the checkpoint itself, not a read error: an older checkpoint can be used.
class Damage : public Error {
 public:
  using Error::Error;
};

template <typename... Args>
[[noreturn]] void damaged(fmt::format_string<Args...> format, Args&&... args) {
  throw Damage(fmt::format(format, std::forward<Args>(args)...));
}

// lstat(2); false if there is nothing.
bool look_at(const std::string& path, struct stat& status) {
  if (::lstat(path.c_str(), &status) == 0) return true;
  if (errno != ENOENT && errno != ENOTDIR) fail_errno(errno, path + ": cannot stat it");
  return false;
}

bool is_there(const std::string& path) {
  struct stat status = {};
  return look_at(path, status);
}

uint64_t size_of_part(const std::string& path) {
  struct stat status = {};
  if (!look_at(path, status)) damaged("{}: does not exist", path);
  if (!S_ISREG(status.st_mode)) damaged("{}: is not a regular file", path);
  return static_cast<uint64_t>(status.st_size);
}

CheckpointManifest read_manifest(const std::string& folder) {
  const std::string path = join_path(folder, kCheckpointManifest);
  if (size_of_part(path) > kMaxManifestBytes) {
    damaged("{}: is larger than {} bytes", path, kMaxManifestBytes);
  }
  const std::string text = read_file(path, kMaxManifestBytes);
  try {
    return parse_checkpoint_manifest(text, path);
  } catch (const NewerCheckpointFormat&) {
    throw;
  } catch (const Error& error) {
    damaged("{}", error.what());
  }
}

CheckpointManifest read_manifest_of(const std::string& name, const std::string& folder) {
  CheckpointManifest manifest = read_manifest(folder);
  if (checkpoint_name(manifest.header.step) != name) {
    damaged("{}: is of step {}, unlike the folder's name", join_path(folder, kCheckpointManifest),
            manifest.header.step);
  }
  return manifest;
}

// Loads everything that `manifest` lists.
LoadedCheckpoint load_verified(CheckpointManifest manifest, const std::string& folder) {
  LoadedCheckpoint loaded;
  loaded.path = folder;
  loaded.header = std::move(manifest.header);
  std::map<std::string, std::span<const std::byte>> contents;
  for (const CheckpointFile& file : manifest.files) {
    const std::string path = join_path(folder, file.name);
    size_of_part(path);
    auto mapped = std::make_shared<const MappedFile>(path);
    if (mapped->bytes().size() != file.bytes) {
      damaged("{}: has {} bytes, its manifest says {}", path, mapped->bytes().size(), file.bytes);
    }
    contents[file.name] = mapped->bytes();
    loaded.files.push_back(std::move(mapped));
  }
  for (CheckpointTensor& tensor : manifest.tensors) {
    const auto bytes = contents.at(tensor.file).subspan(tensor.offset, tensor.bytes);
    if (crc32c(bytes) != tensor.crc32c) {
      damaged("{}: the checksum of {} differs: the file was damaged",
              join_path(folder, tensor.file), tensor.name);
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
  if (!durable_) make_durable_directories(directory_, 0700);
  durable_ = true;
  remove_leftovers(put_back());

  WrittenCheckpoint written;
  written.path = join_path(directory_, checkpoint_name(step));
  for (const TensorView& tensor : tensors) written.bytes += tensor.bytes.size();
  {
    PartialFolder folder(directory_);
    const CheckpointManifest manifest = write_data(folder.path(), std::move(header), tensors);
    const std::string path = join_path(folder.path(), kCheckpointManifest);
    Fd fd = open_file(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    write_all(fd.get(), checkpoint_manifest_text(manifest), path);
    sync_and_close(std::move(fd), path);
    sync_directory(folder.path());
    folder.become(written.path);
  }
  // One that stays, or that a power cut brings back, would be taken for the newest.
  remove_after(checkpoint_name(step));
  prune(step);
  return written;
}

std::vector<std::string> CheckpointStore::step_folders() const {
  std::vector<std::string> names;
  if (!is_there(directory_) || !is_directory(directory_)) return names;
  for (std::string& name : list_directory(directory_)) {
    if (is_checkpoint_name(name)) names.push_back(std::move(name));
  }
  std::sort(names.rbegin(), names.rend());
  return names;
}

std::map<std::string, std::string> CheckpointStore::put_back() const {
  std::map<std::string, std::string> stay;
  if (!is_there(directory_) || !is_directory(directory_)) return stay;
  for (const std::string& name : list_directory(directory_)) {
    if (!is_aside_name(name)) continue;
    const std::string path = join_path(directory_, name);
    try {
      CheckpointManifest manifest = read_manifest(path);
      const std::string step = checkpoint_name(manifest.header.step);
      const std::string target = join_path(directory_, step);
      if (is_there(target)) continue;  // already replaced
      load_verified(std::move(manifest), path);
      // A writer that replaces it now holds the lock. If two processes put it back, the second
      // finds the target there or the source gone.
      const Fd lock(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!lock && errno == ENOENT) continue;
      const bool held = lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
      if (!held && ::rename(path.c_str(), target.c_str()) == 0) continue;
      if (is_there(path) && !is_there(target)) stay.emplace(step, path);
    } catch (const Damage&) {
      // Half removed: another checkpoint has its name.
    } catch (const Error&) {
      if (is_there(path)) throw;
    }
  }
  return stay;
}

std::map<std::string, std::string, std::greater<>> CheckpointStore::found() const {
  std::map<std::string, std::string, std::greater<>> folders;
  for (auto& [step, path] : put_back()) folders.emplace(step, path);
  for (const std::string& name : step_folders()) {
    folders.insert_or_assign(name, join_path(directory_, name));
  }
  return folders;
}

std::optional<LoadedCheckpoint> CheckpointStore::latest(std::vector<std::string>* problems) const {
  for (int attempt = 0; attempt < kReadAttempts; ++attempt) {
    bool vanished = false;
    std::vector<std::string> passed_over;
    std::optional<LoadedCheckpoint> newest;
    for (const auto& [name, path] : found()) {
      try {
        newest = load_verified(read_manifest_of(name, path), path);
        break;
      } catch (const NewerCheckpointFormat&) {
        throw;
      } catch (const Error& error) {
        if (!is_there(path)) {
          vanished = true;
          break;
        }
        if (dynamic_cast<const Damage*>(&error) == nullptr) {
          fail(
              "cannot read checkpoint {}, which may be intact: {}; retry when it is readable, or "
              "remove it to resume from an older checkpoint",
              name, error.what());
        }
        passed_over.push_back(fmt::format("checkpoint {} is not usable: {}", name, error.what()));
      }
    }
    if (vanished) continue;
    if (problems != nullptr) {
      problems->insert(problems->end(), passed_over.begin(), passed_over.end());
    }
    return newest;
  }
  fail_vanishing(directory_);
}

std::optional<CheckpointHeader> CheckpointStore::peek() const {
  for (int attempt = 0; attempt < kReadAttempts; ++attempt) {
    bool vanished = false;
    for (const auto& [name, path] : found()) {
      try {
        return read_manifest_of(name, path).header;
      } catch (const NewerCheckpointFormat&) {
        throw;
      } catch (const Error& error) {
        vanished = !is_there(path);
        if (vanished) break;
        if (dynamic_cast<const Damage*>(&error) == nullptr) throw;  // latest() reports damage
      }
    }
    if (!vanished) return std::nullopt;
  }
  fail_vanishing(directory_);
}

void CheckpointStore::clear() {
  remove_after("");
  remove_leftovers({});
}

void CheckpointStore::remove_after(const std::string& name) {
  std::vector<std::string> later = step_folders();
  // Names sort like steps, because all have 12 digits.
  std::erase_if(later, [&](const std::string& one) { return one <= name; });
  if (later.empty()) return;
  const PartialFolder trash(directory_);
  // The newest last: until it goes, it is the one that a new start takes, and then ours is.
  for (auto one = later.rbegin(); one != later.rend(); ++one) {
    const std::string from = join_path(directory_, *one);
    if (::rename(from.c_str(), join_path(trash.path(), *one).c_str()) != 0) {
      fail_errno(errno, from + ": cannot remove it, and a new start would take it for the newest");
    }
  }
  sync_directory(directory_);
}

void CheckpointStore::prune(int64_t newest_step) {
  int kept = 0;
  for (const std::string& name : step_folders()) {
    if (name <= checkpoint_name(newest_step) && ++kept > keep_) remove_folder(name);
  }
}

// Renames the folder first, so that a half removed one is not taken for a damaged checkpoint.
void CheckpointStore::remove_folder(const std::string& name) {
  try {
    const PartialFolder trash(directory_);
    const std::string from = join_path(directory_, name);
    if (::rename(from.c_str(), join_path(trash.path(), name).c_str()) != 0) {
      fail_errno(errno, from + ": cannot remove it");
    }
  } catch (const Error&) {
    // This only costs disk space; the next write tries again.
  }
}

void CheckpointStore::remove_leftovers(const std::map<std::string, std::string>& but) {
  bool synced = false;
  for (const std::string& name : list_directory(directory_)) {
    if (!is_temporary_name(name)) continue;
    // The writer may have been killed after a rename: on the disk, this may still be the folder
    // that has the checkpoint's name.
    if (!std::exchange(synced, true)) sync_directory(directory_);
    const std::string path = join_path(directory_, name);
    if (std::any_of(but.begin(), but.end(), [&](const auto& kept) { return kept.second == path; }))
      continue;
    const Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd) continue;
    // Locked: another process uses it. Without locks this cannot be known, but a folder that was
    // moved aside and not put back has been replaced.
    const bool locked = ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
    if (!locked && (errno == EWOULDBLOCK || !is_aside_name(name))) continue;
    try {
      remove_tree(path);
    } catch (const Error&) {
    }
  }
}

}  // namespace adaptdl
