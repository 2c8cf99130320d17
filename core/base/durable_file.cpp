#include "core/base/durable_file.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"

namespace adaptdl {
namespace {

// Makes the names of the folder and of its parents durable, up to the root of its file system.
void sync_folders(const std::string& path) {
  std::string folder = absolute_path(path);
  struct stat here {};
  if (::stat(folder.c_str(), &here) != 0) fail_errno(errno, folder);
  for (;;) {
    const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    // Who may not read a folder of others cannot sync it; its owner made it long ago.
    if (!fd && errno != EACCES) fail_errno(errno, folder + ": cannot sync");
    // EINVAL, EROFS: the file system cannot sync a folder, or need not.
    if (fd && ::fsync(fd.get()) != 0 && errno != EINVAL && errno != EROFS) {
      fail_errno(errno, folder + ": cannot sync");
    }
    const std::string parent = parent_directory(folder);
    struct stat above {};
    if (parent == folder || ::stat(parent.c_str(), &above) != 0 || above.st_dev != here.st_dev) {
      return;
    }
    folder = parent;
  }
}

void put_in_place(const std::string& path) {
  if (::rename(part_path(path).c_str(), path.c_str()) != 0) {
    fail_errno(errno, path + ": cannot write");
  }
  sync_directory(parent_directory(path));
}

}  // namespace

void sync_and_close(Fd file, const std::string& path) {
  if (::fsync(file.get()) != 0) fail_errno(errno, path + ": cannot write");
  // Linux closes the descriptor also when interrupted.
  if (::close(file.release()) != 0 && errno != EINTR) fail_errno(errno, path + ": cannot write");
}

void make_durable_directories(const std::string& path, mode_t mode) {
  make_directories(path, mode);
  sync_folders(path);
}

DurableFile::DurableFile(std::string path, mode_t mode)
    : path_(std::move(path)),
      part_(part_path(path_)),
      file_(open_file(part_, O_WRONLY | O_CREAT | O_TRUNC, mode)) {}

DurableFile::~DurableFile() {
  if (!part_.empty()) ::unlink(part_.c_str());
}

void DurableFile::write(std::string_view bytes) {
  write_all(file_.get(), bytes, part_);
}

void DurableFile::commit() {
  sync_and_close(std::move(file_), part_);
  put_in_place(path_);
  part_.clear();
}

std::string part_path(const std::string& path) {
  return path + ".part";
}

void commit_part(const std::string& path) {
  const std::string part = part_path(path);
  sync_and_close(open_file(part, O_RDONLY), part);
  put_in_place(path);
}

}  // namespace adaptdl
