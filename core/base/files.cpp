#include "core/base/files.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <utility>

#include "core/base/crypto.h"
#include "core/base/error.h"
#include "core/base/temporary.h"

namespace adaptdl {

Fd open_file(const std::string& path, int flags, mode_t mode) {
  for (;;) {
    const int fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
    if (fd >= 0) return Fd(fd);
    if (errno != EINTR) fail_errno(errno, path + ": cannot open");
  }
}

std::optional<Fd> try_lock(const std::string& path) {
  Fd lock = open_file(path, O_RDWR | O_CREAT, 0600);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) fail_errno(errno, path + ": cannot lock");
  return std::nullopt;
}

std::optional<Fd> try_lock_byte(const std::string& path, int64_t at) {
  Fd lock = open_file(path, O_RDWR | O_CREAT, 0600);
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = at;
  range.l_len = 1;
  if (::fcntl(lock.get(), F_OFD_SETLK, &range) == 0) return lock;
  if (errno != EAGAIN && errno != EACCES) fail_errno(errno, path + ": cannot lock");
  return std::nullopt;
}

std::string read_file(const std::string& path, size_t max_bytes) {
  const Fd fd = open_file(path, O_RDONLY);
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) fail_errno(errno, path + ": cannot read");
  if (S_ISDIR(info.st_mode)) fail("{}: is a folder, not a file", path);
  const auto too_large = [&] { fail("{}: is larger than {} bytes", path, max_bytes); };
  if (info.st_size > 0 && static_cast<uint64_t>(info.st_size) > max_bytes) too_large();

  // Files of /proc have size 0, and any file may grow, so read to the end.
  std::string text;
  size_t used = 0;
  text.resize(std::min<size_t>(max_bytes, static_cast<size_t>(info.st_size)) + 1);
  for (;;) {
    if (used == text.size()) text.resize(std::max<size_t>(4096, text.size() * 2));
    const ssize_t got = ::read(fd.get(), text.data() + used, text.size() - used);
    if (got < 0) {
      if (errno == EINTR) continue;
      fail_errno(errno, path + ": cannot read");
    }
    if (got == 0) break;
    used += static_cast<size_t>(got);
    if (used > max_bytes) too_large();
  }
  text.resize(used);
  return text;
}

void write_all(int fd, std::string_view bytes, std::string_view what) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put < 0) {
      if (errno == EINTR) continue;
      fail_errno(errno, std::string(what) + ": cannot write");
    }
    bytes.remove_prefix(static_cast<size_t>(put));
  }
}

void read_exactly_at(int fd, std::span<std::byte> bytes, uint64_t offset, std::string_view what) {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0) {
      if (errno == EINTR) continue;
      fail_errno(errno, std::string(what) + ": cannot read");
    }
    if (got == 0) fail("{}: ends at byte {}, {} bytes too early", what, offset, bytes.size());
    bytes = bytes.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
}

void sync_directory(const std::string& path) {
  const Fd fd = open_file(path, O_RDONLY | O_DIRECTORY);
  // Some file systems cannot sync a folder (EINVAL) and need not.
  if (fsync(fd.get()) != 0 && errno != EINVAL) fail_errno(errno, path + ": cannot sync");
}

namespace {

// `exact_mode`: whatever the umask.
void replace(const std::string& path, std::string_view bytes, mode_t mode, bool sync,
             bool exact_mode = false) {
  const std::string folder = parent_directory(path);
  const std::string temporary =
      join_path(folder, "." + file_name(path) + ".tmp-" + to_hex(random_bytes(6)));
  Fd fd = open_file(temporary, O_WRONLY | O_CREAT | O_EXCL, mode);
  try {
    write_all(fd.get(), bytes, path);
    if (exact_mode && ::fchmod(fd.get(), mode) != 0) fail_errno(errno, path + ": cannot write");
    if (sync && fsync(fd.get()) != 0) fail_errno(errno, path + ": cannot write");
    if (::close(fd.release()) != 0 && errno != EINTR) fail_errno(errno, path + ": cannot write");
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
      fail_errno(errno, path + ": cannot replace");
    }
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  if (sync) sync_directory(folder);
}

}  // namespace

void write_file_atomic(const std::string& path, std::string_view bytes, mode_t mode) {
  replace(path, bytes, mode, true);
}

void replace_file(const std::string& path, std::string_view bytes, mode_t mode) {
  replace(path, bytes, mode, false);
}

void write_user_file(const std::string& path, std::string_view bytes, mode_t mode) {
  const std::string file = followed_links(path);
  struct stat info {};
  const bool exists = ::stat(file.c_str(), &info) == 0;
  if (exists && !S_ISREG(info.st_mode)) {  // a device or a pipe is no file to be replaced
    const Fd out = open_file(path, O_WRONLY);
    return write_all(out.get(), bytes, path);
  }
  replace(file, bytes, exists ? info.st_mode & 0777 : mode, true, exists);
}

bool path_exists(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0;
}

bool is_directory(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

uint64_t file_size(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) fail_errno(errno, path);
  return static_cast<uint64_t>(info.st_size);
}

void make_directories(const std::string& path, mode_t mode) {
  if (path.empty() || is_directory(path)) return;
  make_directories(parent_directory(path), mode);
  if (::mkdir(path.c_str(), mode) != 0 && !(errno == EEXIST && is_directory(path))) {
    fail_errno(errno, path + ": cannot create this folder");
  }
}

namespace {

// Gives the owner full permissions on these folders; ignores failures.
void open_folders(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return;
  if ((info.st_mode & S_IRWXU) != S_IRWXU) ::chmod(path.c_str(), (info.st_mode & 07777) | S_IRWXU);
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    open_folders(entry.path().string());
  }
}

}  // namespace

void remove_tree(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error == std::errc::permission_denied) {
    open_folders(path);
    std::filesystem::remove_all(path, error);
  }
  if (error) fail("{}: cannot remove: {}", path, error.message());
}

std::vector<std::string> list_directory(const std::string& path) {
  const auto close_directory = [](DIR* directory) { closedir(directory); };
  const std::unique_ptr<DIR, decltype(close_directory)> directory(opendir(path.c_str()),
                                                                  close_directory);
  if (!directory) fail_errno(errno, path + ": cannot list this folder");
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* entry = readdir(directory.get());
    if (entry == nullptr) break;
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  if (errno != 0) fail_errno(errno, path + ": cannot list this folder");
  std::sort(names.begin(), names.end());
  return names;
}

std::string absolute_path(const std::string& path, const std::string& base) {
  std::filesystem::path whole = path;
  if (!whole.is_absolute()) {
    if (base.empty()) {
      std::error_code error;
      const std::filesystem::path current = std::filesystem::current_path(error);
      if (error) fail("cannot determine the working directory: {}", error.message());
      whole = current / whole;
    } else {
      whole = std::filesystem::path(base) / whole;
    }
  }
  std::string normal = whole.lexically_normal().string();
  if (normal.size() > 1 && normal.back() == '/') normal.pop_back();
  return normal;
}

std::string user_path(const std::string& path, const std::string& base) {
  const std::filesystem::path whole = join_path(base.empty() ? absolute_path(".") : base, path);
  std::string done = "/";
  for (const auto& part : whole.relative_path()) {
    if (part == "..") {
      std::error_code error;
      if (std::filesystem::is_symlink(done, error)) {
        const std::filesystem::path target = std::filesystem::canonical(done, error);
        if (!error) done = target.string();
      }
      done = parent_directory(done);
    } else if (part != "." && !part.empty()) {
      done = join_path(done, part.string());
    }
  }
  return done;
}

std::string followed_links(const std::string& path) {
  // The system may refuse symlinks of other users in folders like /tmp.
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 && errno != ENOENT) fail_errno(errno, path);
  std::string place = path;
  for (int links = 0; links < 40; ++links) {  // as many as Linux follows
    std::error_code error;
    const std::filesystem::path target = std::filesystem::read_symlink(place, error);
    if (error) return place;
    place = join_path(parent_directory(place), target.string());
  }
  fail_errno(ELOOP, path);
}

std::string real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  if (!real) fail_errno(errno, path + ": cannot open");
  return real.get();
}

std::string join_path(const std::string& folder, const std::string& name) {
  if (folder.empty() || (!name.empty() && name.front() == '/')) return name;
  return folder.back() == '/' ? folder + name : folder + "/" + name;
}

std::string parent_directory(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  if (end == std::string::npos) return path.empty() ? "." : "/";
  const size_t slash = path.find_last_of('/', end);
  if (slash == std::string::npos) return ".";
  const size_t last = path.find_last_not_of('/', slash);
  return last == std::string::npos ? "/" : path.substr(0, last + 1);
}

std::string file_name(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  if (end == std::string::npos) return path.empty() ? "" : "/";
  const size_t slash = path.find_last_of('/', end);
  const size_t begin = slash == std::string::npos ? 0 : slash + 1;
  return path.substr(begin, end + 1 - begin);
}

std::string file_stem(const std::string& path) {
  const std::string name = file_name(path);
  const size_t dot = name.find_last_of('.');
  return dot == std::string::npos || dot == 0 ? name : name.substr(0, dot);
}

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const Fd fd = open_file(path, O_RDONLY);
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) fail_errno(errno, path + ": cannot read");
  if (!S_ISREG(info.st_mode)) fail("{}: is not a regular file", path);
  if (info.st_size == 0) return;  // the kernel rejects an empty mapping
  void* data = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) fail_errno(errno, path + ": cannot map into memory");
  data_ = static_cast<const std::byte*>(data);
  size_ = static_cast<size_t>(info.st_size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

TemporaryDirectory::TemporaryDirectory(const std::string& prefix) {
  const char* base = std::getenv("TMPDIR");
  path_ = join_path(base != nullptr && *base != '\0' ? base : "/tmp", prefix + "-XXXXXX");
  if (mkdtemp(path_.data()) == nullptr) {
    fail_errno(errno, path_ + ": cannot create a temporary folder");
  }
  note_temporary_path(path_);
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code error;  // ignored: nothing useful to do here
  if (!kept_) std::filesystem::remove_all(path_, error);
  forget_temporary_path(path_);
}

}  // namespace adaptdl
