#pragma once

// Files and folders. Every function throws Error with the path and the system's reason; paths are
// taken as given (no expansion of ~). All are thread-safe.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "core/base/fd.h"

namespace adaptdl {

// open(2) with O_CLOEXEC.
Fd open_file(const std::string& path, int flags, mode_t mode = 0666);

// A lock that ends with the descriptor: on the file, which is created (mode 0600) if missing, or on
// one byte of it, `at` >= 0, which need not be there. Nothing if another descriptor holds it.
std::optional<Fd> try_lock(const std::string& path);
std::optional<Fd> try_lock_byte(const std::string& path, int64_t at);

// Reads the whole file. Rejects a file larger than `max_bytes`, before or while reading.
std::string read_file(const std::string& path, size_t max_bytes);

// Replaces or creates `path` atomically: a reader, and the disk after a power cut, has either the
// whole old or the whole new content. Writes a temporary file in the same folder, then fsync,
// rename, and fsync of the folder. A symlink at `path` is replaced, not followed. `mode` is subject
// to the umask.
void write_file_atomic(const std::string& path, std::string_view bytes, mode_t mode = 0666);

// As write_file_atomic, for a file that its user owns: symlinks at `path` are followed (see
// followed_links), and an existing file keeps its mode.
void write_user_file(const std::string& path, std::string_view bytes, mode_t mode = 0666);

// As write_file_atomic, but without fsync: a power cut may leave the old, the new, or an empty
// file. Takes microseconds.
void replace_file(const std::string& path, std::string_view bytes, mode_t mode = 0666);

// Makes renames and new names in this folder durable (fsync).
void sync_directory(const std::string& path);

// Writes everything, also when interrupted. `what` names the target in the Error.
void write_all(int fd, std::string_view bytes, std::string_view what);

// Fills `bytes` from the file's `offset`. Throws Error if the file ends earlier.
void read_exactly_at(int fd, std::span<std::byte> bytes, uint64_t offset, std::string_view what);

bool path_exists(const std::string& path);   // follows symlinks; false for a dangling one
bool is_directory(const std::string& path);  // follows links
uint64_t file_size(const std::string& path);

// Creates the folder and its parents with `mode` less the umask. An existing folder is no error.
void make_directories(const std::string& path, mode_t mode = 0777);

// Removes a file, a symlink (not its target), or a folder with all its content, read-only or not. A
// missing path is no error.
void remove_tree(const std::string& path);

// Names (not paths) in the folder, sorted, without . and ..
std::vector<std::string> list_directory(const std::string& path);

// Makes `path` absolute relative to the working directory, or to `base` (itself absolute), and
// removes "." and ".." textually, without looking at the disk.
std::string absolute_path(const std::string& path, const std::string& base = "");
// The same for a path that a user gave: ".." behind a symlink leads to the parent of its target, as
// for the system. Without such a symlink the result is that of absolute_path().
std::string user_path(const std::string& path, const std::string& base = "");
// Where the symlink at `path` leads, by way of others; the last one's target need not exist. `path`
// itself if it is no symlink. Throws Error if the system does not follow them.
std::string followed_links(const std::string& path);
// The place on the disk: absolute, without symlinks, "." and "..". Throws Error if it does not
// exist.
std::string real_path(const std::string& path);
std::string join_path(const std::string& folder, const std::string& name);  // absolute name wins
std::string parent_directory(const std::string& path);                      // "." for a bare name
std::string file_name(const std::string& path);                             // last component
std::string file_stem(const std::string& path);  // last component without its last .suffix

// A file mapped for reading. Movable. The bytes stay valid as long as the object. If another
// process truncates the file, an access raises SIGBUS, so map only files that are replaced by
// renaming.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// A new folder (0700) under TMPDIR or /tmp; the destructor removes it with its content.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(const std::string& prefix = "adaptdl");
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory();

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return join_path(path_, name); }
  void keep() { kept_ = true; }  // the destructor leaves it

 private:
  std::string path_;
  bool kept_ = false;
};

}  // namespace adaptdl
