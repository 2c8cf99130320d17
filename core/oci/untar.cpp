#include "core/oci/untar.h"

#include <algorithm>
#include <archive.h>
#include <archive_entry.h>
#include <array>
#include <cerrno>
#include <exception>
#include <fcntl.h>
#include <limits>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"

namespace adaptdl::oci {
namespace {

constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

using Names = std::vector<std::string>;  // of a path, from the top

// Throws Error for a path that is absolute or has "..".
Names names_of(std::string_view path) {
  const auto refuse = [&](const char* why) {
    fail("the archive contains {}, {}; refusing to write it", path, why);
  };
  if (path.starts_with('/')) refuse("an absolute path");
  Names names;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view name = path.substr(begin, end - begin);
    if (name == "..") refuse("a path with ..");
    if (!name.empty() && name != ".") names.emplace_back(name);
    begin = end + 1;
  }
  return names;
}

std::string joined(const Names& names) {
  return fmt::format("{}", fmt::join(names, "/"));
}

class Unpacker {
 public:
  Unpacker(const TarSource& source, std::string folder, const UntarOptions& options)
      : source_(source),
        path_(std::move(folder)),
        root_(open_file(path_, O_RDONLY | O_DIRECTORY)),
        options_(options),
        beside_(fmt::format(".unpacking-{}", getpid())),
        archive_(archive_read_new(), archive_read_free) {
    ADAPTDL_CHECK(archive_ != nullptr);
    archive_read_support_format_tar(archive_.get());
    archive_read_support_filter_gzip(archive_.get());
    archive_read_support_filter_zstd(archive_.get());
    check(archive_read_open(archive_.get(), this, nullptr, on_read, nullptr));
  }

  UntarResult run() {
    for (;;) {
      archive_entry* entry = nullptr;
      const int code = archive_read_next_header(archive_.get(), &entry);
      if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
      if (code == ARCHIVE_EOF) break;
      check(code);
      take(entry);
    }
    finish_folders();
    return std::move(result_);
  }

 private:
  struct Folder {
    Names names;
    mode_t mode;
    timespec time;
  };

  static la_ssize_t on_read(archive* reader, void* self, const void** bytes) {
    Unpacker& unpacker = *static_cast<Unpacker*>(self);
    try {
      const std::string_view piece = unpacker.source_();
      *bytes = piece.data();
      return static_cast<la_ssize_t>(piece.size());
    } catch (...) {  // exceptions must not pass through C
      unpacker.thrown_ = std::current_exception();
      archive_set_error(reader, EIO, "cannot be read");
      return -1;
    }
  }

  // Warnings are about names that are not text in the locale (C): names are bytes here.
  void check(int code) {
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
    if (code == ARCHIVE_OK || code == ARCHIVE_WARN) return;
    const char* const why = archive_error_string(archive_.get());
    fail("cannot read the archive: {}", why != nullptr ? why : "it is damaged");
  }

  void take(archive_entry* entry) {
    const char* name = archive_entry_pathname(entry);
    if (name == nullptr) name = archive_entry_pathname_utf8(entry);
    if (name == nullptr) fail("the archive contains an unreadable name");
    Names names = names_of(name);
    if (names.empty()) return;  // "./"
    if (!options_.names.empty()) rename_top(names, name);
    if (const char* target = archive_entry_hardlink(entry)) {
      return put_second_name(names, entry, target);
    }
    switch (archive_entry_filetype(entry)) {
      case AE_IFREG:
        return put_file(names, entry);
      case AE_IFDIR:
        return put_folder(names, entry);
      case AE_IFLNK:
        return put_link(names, entry);
      default:
        result_.skipped.push_back(joined(names) + ": not a regular file");
    }
  }

  void rename_top(Names& names, const char* whole) const {
    const auto found = options_.names.find(names[0]);
    if (found == options_.names.end()) {
      fail("the archive contains {}, which was not requested", whole);
    }
    names[0] = found->second;
  }

  // The folder that contains the last of `names`. With `make`, creates missing folders; otherwise
  // returns -1 if one is missing.
  int parent(const Names& names, bool make) {
    const Names folders(names.begin(), names.end() - 1);
    if (folders.empty()) return root_.get();
    if (parent_ && folders == parent_names_) return parent_.get();
    Fd at;
    for (size_t i = 0; i < folders.size(); ++i) {
      const int above = i == 0 ? root_.get() : at.get();
      Fd next(openat(above, folders[i].c_str(), kFolder));
      if (!next && errno == ENOENT && make) {
        if (mkdirat(above, folders[i].c_str(), 0777) != 0 && errno != EEXIST) problem(names);
        next = Fd(openat(above, folders[i].c_str(), kFolder));
      }
      if (!next && !make) return -1;
      if (!next && (errno == ELOOP || errno == ENOTDIR)) {
        fail("{}: {} is a symlink or not a folder; refusing to write through it",
             join_path(path_, joined(names)), folders[i]);
      }
      if (!next) problem(names);
      at = std::move(next);
    }
    parent_ = std::move(at);
    parent_names_ = folders;
    return parent_.get();
  }

  [[noreturn]] void problem(const Names& names) const {
    fail_errno(errno, join_path(path_, joined(names)));
  }

  void told(const Names& names, TarEntry::Kind kind, std::string source,
            archive_entry* entry) const {
    if (!options_.placed) return;
    const auto owner = [&](la_int64_t number) {
      if (number < 0 || number >= std::numeric_limits<uint32_t>::max()) {
        fail("the archive contains {}, whose owner's number {} is out of range", joined(names),
             number);
      }
      return static_cast<uint32_t>(number);
    };
    options_.placed({joined(names), kind, std::move(source), archive_entry_perm(entry) & 07777,
                     owner(archive_entry_uid(entry)), owner(archive_entry_gid(entry))});
  }

  void put_file(const Names& names, archive_entry* entry) {
    const int folder = parent(names, true);
    const mode_t mode = archive_entry_perm(entry) & 0777;
    unlinkat(folder, beside_.c_str(), 0);
    Fd file(openat(folder, beside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                   0600));
    if (!file) problem(names);
    try {
      fill(file.get(), names, entry);
      const timespec times[2] = {time_of(entry), time_of(entry)};
      if (fchmod(file.get(), mode) != 0 || futimens(file.get(), times) != 0) problem(names);
      if (renameat(folder, beside_.c_str(), folder, names.back().c_str()) != 0) problem(names);
    } catch (...) {
      unlinkat(folder, beside_.c_str(), 0);
      throw;
    }
    ++result_.files;
    told(names, TarEntry::Kind::file, join_path(path_, joined(names)), entry);
  }

  // Keeps holes.
  void fill(int file, const Names& names, archive_entry* entry) {
    for (;;) {
      const void* bytes = nullptr;
      size_t size = 0;
      la_int64_t offset = 0;
      const int code = archive_read_data_block(archive_.get(), &bytes, &size, &offset);
      if (code == ARCHIVE_EOF) break;
      check(code);
      for (size_t done = 0; done < size;) {
        const ssize_t written = pwrite(file, static_cast<const char*>(bytes) + done, size - done,
                                       offset + static_cast<off_t>(done));
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) problem(names);
        done += static_cast<size_t>(written);
      }
      result_.bytes += size;
    }
    if (ftruncate(file, std::max<la_int64_t>(archive_entry_size(entry), 0)) != 0) problem(names);
  }

  void put_folder(const Names& names, archive_entry* entry) {
    const int above = parent(names, true);
    // Its own mode may forbid writing into it, so finish_folders() sets it last.
    if (mkdirat(above, names.back().c_str(), 0700) != 0) {
      if (errno != EEXIST) problem(names);
      if (const Fd there(openat(above, names.back().c_str(), kFolder)); !there) {
        fail("{}: is a symlink or not a folder; refusing to write through it",
             join_path(path_, joined(names)));
      }
    }
    const mode_t mode = archive_entry_perm(entry) & 0777;
    folders_.push_back({names, mode, time_of(entry)});
    told(names, TarEntry::Kind::folder, "", entry);
  }

  // Bottom-up, so that each folder is still accessible; skips folders that no longer exist.
  void finish_folders() {
    for (auto folder = folders_.rbegin(); folder != folders_.rend(); ++folder) {
      const int above = parent(folder->names, false);
      const Fd here(above < 0 ? -1 : openat(above, folder->names.back().c_str(), kFolder));
      if (!here) continue;
      const timespec times[2] = {folder->time, folder->time};
      if (futimens(here.get(), times) != 0 || fchmod(here.get(), folder->mode) != 0) {
        problem(folder->names);
      }
    }
  }

  void put_link(const Names& names, archive_entry* entry) {
    const char* target = archive_entry_symlink(entry);
    if (target == nullptr) target = archive_entry_symlink_utf8(entry);
    if (target == nullptr || *target == 0) return skip_link(names, "nowhere");
    // With expected names, each top-level entry is the tree that links must stay in.
    const size_t above = names.size() - 1, top = options_.names.empty() ? 0 : 1;
    if (!options_.any_links && (above < top || leads_out(target, above - top))) {
      return skip_link(names, target);
    }
    const int folder = parent(names, true);
    if (unlinkat(folder, names.back().c_str(), 0) != 0 && errno != ENOENT) problem(names);
    if (symlinkat(target, folder, names.back().c_str()) != 0) problem(names);
    const timespec times[2] = {time_of(entry), time_of(entry)};
    utimensat(folder, names.back().c_str(), times, AT_SYMLINK_NOFOLLOW);
    ++result_.files;
    told(names, TarEntry::Kind::link, target, entry);
  }

  void skip_link(const Names& names, const char* target) {
    result_.skipped.push_back(
        fmt::format("{}: leads to {}, outside of what is copied", joined(names), target));
  }

  // A hard link, to a file that came before.
  void put_second_name(const Names& names, archive_entry* entry, const char* target) {
    Names first = names_of(target);
    if (first.empty()) return skip_link(names, target);
    if (!options_.names.empty()) rename_top(first, target);
    const int other = parent(first, false);
    struct stat status {};
    if (other < 0 || fstatat(other, first.back().c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(status.st_mode)) {
      result_.skipped.push_back(
          fmt::format("{}: is a hard link to {}, which is not a file here", joined(names), target));
      return;
    }
    const Fd from(dup(other));  // parent() keeps only one open
    const int folder = parent(names, true);
    unlinkat(folder, beside_.c_str(), 0);
    if (linkat(from.get(), first.back().c_str(), folder, beside_.c_str(), 0) != 0) problem(names);
    if (renameat(folder, beside_.c_str(), folder, names.back().c_str()) != 0) {
      const int error = errno;
      unlinkat(folder, beside_.c_str(), 0);
      errno = error;
      problem(names);
    }
    unlinkat(folder, beside_.c_str(), 0);  // rename does nothing if both are names of one file
    ++result_.files;
    told(names, TarEntry::Kind::file, join_path(path_, joined(names)), entry);
  }

  static timespec time_of(archive_entry* entry) {
    // File systems differ beyond these times.
    constexpr time_t kLatest = std::numeric_limits<int32_t>::max();
    return {std::clamp<time_t>(archive_entry_mtime(entry), 0, kLatest),
            std::clamp(archive_entry_mtime_nsec(entry), 0L, 999'999'999L)};
  }

  const TarSource& source_;
  const std::string path_;
  const Fd root_;
  const UntarOptions& options_;
  const std::string beside_;  // a file's name until it is whole
  std::exception_ptr thrown_;
  Names parent_names_;  // what parent_ is
  Fd parent_;
  std::vector<Folder> folders_;
  UntarResult result_;
  std::unique_ptr<archive, int (*)(archive*)> archive_;  // last: its destructor uses the others
};

}  // namespace

TarSource read_descriptor(int fd, const std::string& what) {
  auto buffer = std::make_shared<std::array<char, 1 << 16>>();
  return [fd, what, buffer]() -> std::string_view {
    for (;;) {
      const ssize_t got = ::read(fd, buffer->data(), buffer->size());
      if (got >= 0) return {buffer->data(), static_cast<size_t>(got)};
      if (errno != EINTR) fail_errno(errno, what);
    }
  };
}

UntarResult untar(const TarSource& source, const std::string& folder, const UntarOptions& options) {
  return Unpacker(source, folder, options).run();
}

bool leads_out(std::string_view target, size_t depth) {
  if (target.empty() || target.starts_with('/')) return true;
  bool named = false;
  for (size_t begin = 0; begin < target.size();) {
    const size_t end = std::min(target.find('/', begin), target.size());
    const std::string_view name = target.substr(begin, end - begin);
    begin = end + 1;
    if (name.empty() || name == ".") continue;
    if (name != "..") {
      named = true;
    } else if (named || depth == 0) {
      return true;
    } else {
      --depth;
    }
  }
  return false;
}

}  // namespace adaptdl::oci
