#include "runtime/checkpoint/partial_folder.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"

namespace adaptdl {
namespace {

constexpr const char* kTemporary = ".partial-";
constexpr const char* kAside = ".old";
constexpr int kAttempts = 100;

void remove_or_leave(const std::string& path) {
  try {
    remove_tree(path);
  } catch (const Error&) {
    // The next write tries again.
  }
}

}  // namespace

bool is_temporary_name(const std::string& name) {
  return name.starts_with(kTemporary);
}

bool is_aside_name(const std::string& name) {
  return is_temporary_name(name) && name.ends_with(kAside);
}

PartialFolder::PartialFolder(const std::string& directory) {
  // Another process that clears leftovers may take the folder between its creation and its lock.
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::string name = join_path(directory, std::string(kTemporary) + "XXXXXX");
    if (mkdtemp(name.data()) == nullptr) fail_errno(errno, name + ": cannot create the folder");
    path_ = name;
    lock_ = Fd(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!lock_) continue;
    // Without file locks this assumes no other live writer, only leftovers of killed ones.
    ::flock(lock_.get(), LOCK_EX | LOCK_NB);
    struct stat held = {}, there = {};
    if (::fstat(lock_.get(), &held) == 0 && ::stat(name.c_str(), &there) == 0 &&
        held.st_ino == there.st_ino) {
      return;
    }
  }
  fail("{}: cannot create a folder in it: another process keeps removing it", directory);
}

PartialFolder::~PartialFolder() {
  if (!path_.empty()) remove_or_leave(path_);
}

void PartialFolder::sync_or(const std::function<void()>& undo) {
  try {
    sync_directory(parent_directory(path_));
  } catch (const Error&) {
    undo();
    // The disk may have the folders under either name: what is removed now could be the earlier
    // checkpoint there. The next write syncs first, and then removes the leftover.
    path_.clear();
    throw;
  }
}

void PartialFolder::become(const std::string& target) {
  const auto unnamed = [&] { ::rename(target.c_str(), path_.c_str()); };
  if (::rename(path_.c_str(), target.c_str()) == 0) return sync_or(unnamed);
  if (errno != EEXIST && errno != ENOTEMPTY) fail_errno(errno, target + ": cannot rename to it");
  // The earlier folder then has our temporary name and is removed with this object.
  const auto exchange = [&] {
    return ::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0;
  };
  if (exchange()) return sync_or(exchange);
  // The file system has no such call (NFS, for example): the name is missing for a moment.
  const std::string aside = path_ + kAside;
  for (int attempt = 1;; ++attempt) {
    // While it is locked, no process takes it for a leftover of a killed writer. Without locks a
    // process may rename it back; then it must be moved aside again.
    const Fd lock(::open(target.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (lock) ::flock(lock.get(), LOCK_EX | LOCK_NB);
    if (::rename(target.c_str(), aside.c_str()) != 0 && errno != ENOENT) {
      fail_errno(errno, target + ": cannot replace it");
    }
    if (::rename(path_.c_str(), target.c_str()) == 0) break;
    const int error = errno;
    if ((error == EEXIST || error == ENOTEMPTY) && attempt < kAttempts) continue;
    ::rename(aside.c_str(), target.c_str());  // if this fails, the next reader or writer does it
    fail_errno(error, target + ": cannot rename to it");
  }
  sync_or([&] {
    unnamed();
    ::rename(aside.c_str(), target.c_str());
  });
  remove_or_leave(aside);
}

}  // namespace adaptdl
