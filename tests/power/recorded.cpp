#include "tests/power/recorded.h"

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

namespace power {

const char* log_path() {
  static const char* const path = std::getenv("POWER_LOG");
  return path;
}

namespace {

// The test's folder, without symlinks.
const std::string& root() {
  static const std::string folder = [] {
    const char* path = std::getenv("POWER_FOLDER");
    return std::string(path == nullptr ? "" : path);
  }();
  return folder;
}

std::string path_of(int fd) {
  char name[64], path[PATH_MAX];
  std::snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  const long size = call(SYS_readlinkat, AT_FDCWD, name, path, sizeof path);
  return size <= 0 ? "" : std::string(path, static_cast<size_t>(size));
}

bool below_root(const std::string& path) {
  const std::string& folder = root();
  return !folder.empty() && path.starts_with(folder) &&
         (path.size() == folder.size() || path[folder.size()] == '/');
}

Control* control() {
  static Control* const page = map_control();
  return page;
}

}  // namespace

bool recorded() {
  return !root().empty();
}

uint64_t inode_of(int fd) {
  const int error = errno;
  struct stat status {};
  uint64_t inode = 0;
  if (fd >= 0 && below_root(path_of(fd)) && ::fstat(fd, &status) == 0 &&
      (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode))) {
    inode = status.st_ino;
  }
  errno = error;
  return inode;
}

Place::Place(int at, const char* path) {
  const int error = errno;
  std::string whole = path == nullptr ? "" : path;
  while (whole.size() > 1 && whole.back() == '/') whole.pop_back();
  const size_t slash = whole.rfind('/');
  name = slash == std::string::npos ? whole : whole.substr(slash + 1);
  const std::string parent = slash == std::string::npos ? "."
                             : slash == 0               ? "/"
                                                        : whole.substr(0, slash);
  const auto fd =
      static_cast<int>(call(SYS_openat, at, parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC, 0));
  if (fd >= 0) {
    struct stat status {};
    if (below_root(path_of(fd)) && ::fstat(fd, &status) == 0) {
      folder = status.st_ino;
      const bool there = ::fstatat(fd, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
      inode = there ? status.st_ino : 0;
    }
    call(SYS_close, fd);
  }
  errno = error;
}

bool fails(uint32_t kind) {
  Control* const page = control();
  if (page == nullptr || page->countdown == 0 || (page->kinds & kind) == 0) return false;
  if (page->countdown > 1) {
    --page->countdown;
    return false;
  }
  if (page->lasting == 0) page->countdown = 0;
  ++page->hits;
  if (page->error == 0) call(SYS_kill, call(SYS_getpid), SIGKILL);
  errno = page->error;
  return true;
}

void record(const Turn& turn, const Record& what) {
  const int error = errno;
  if (turn.log >= 0) append(turn.log, what);
  errno = error;
}

}  // namespace power
