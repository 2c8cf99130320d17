#include "core/base/file_copy.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/files.h"

namespace adaptdl {
namespace {

constexpr size_t kChunk = 8u << 20;  // between two reports of progress
constexpr int kTries = 3;

class Copier {
 public:
  Copier(const std::string& from, const std::string& to,
         const std::function<void(uint64_t)>& progress)
      : from_(from), to_(to), progress_(progress) {}

  CopiedFile run() {
    // If a symlink or a pipe has replaced the file, do not follow it or wait for it.
    in_ = Fd(::open(from_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!in_) {
      if (errno == ENOENT) return {.found = false};
      fail_errno(errno, from_ + ": cannot open");
    }
    out_ = Fd(::open(to_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!out_) fail_to_write(errno, to_);
    CopiedFile copied;
    struct stat before {};
    for (int i = 0; i == 0 || (copied.changed && i < kTries); ++i) {
      before = status();
      if (!S_ISREG(before.st_mode)) fail("{}: is no longer a regular file", from_);
      copied.bytes = static_cast<uint64_t>(before.st_size);
      copy_bytes(before.st_size);
      const struct stat after = status();
      copied.changed = after.st_size != before.st_size ||
                       after.st_mtim.tv_sec != before.st_mtim.tv_sec ||
                       after.st_mtim.tv_nsec != before.st_mtim.tv_nsec;
    }
    if (::fchmod(out_.get(), before.st_mode & 0777) != 0) fail_to_write(errno, to_);
    const struct timespec times[2] = {before.st_atim, before.st_mtim};
    if (::futimens(out_.get(), times) != 0) fail_to_write(errno, to_);
    // Some file systems report a full disk only here.
    if (::close(out_.release()) != 0) fail_to_write(errno, to_);
    return copied;
  }

 private:
  struct stat status() const {
    struct stat status {};
    if (::fstat(in_.get(), &status) != 0) fail_errno(errno, from_ + ": cannot read");
    return status;
  }

  void report(uint64_t bytes) const {
    if (progress_) progress_(bytes);
  }

  void copy_bytes(off_t size) {
    if (::ftruncate(out_.get(), 0) != 0) fail_to_write(errno, to_);
    if (::ioctl(out_.get(), FICLONE, in_.get()) == 0) {
      report(static_cast<uint64_t>(size));
      return;
    }
    off_t at = 0;
    while (at < size) {
      off_t data = ::lseek(in_.get(), at, SEEK_DATA);
      if (data < 0 && errno == ENXIO) break;  // a hole up to the end
      off_t hole = data < 0 ? size : ::lseek(in_.get(), data, SEEK_HOLE);
      if (data < 0) data = at;  // the file system does not support SEEK_DATA
      if (hole < 0) hole = size;
      hole = std::min(hole, size);
      at = data;
      while (at < hole) {
        const auto count = std::min<off_t>(hole - at, kChunk);
        const off_t done = copy_range(at, static_cast<size_t>(count));
        if (done == 0) return;  // it became shorter; run() notices that
        at += done;
        report(static_cast<uint64_t>(done));
      }
    }
    if (::ftruncate(out_.get(), size) != 0) fail_to_write(errno, to_);  // a hole at the end
  }

  // At least one byte of `count`, or 0 at the file's end.
  off_t copy_range(off_t at, size_t count) {
    while (in_kernel_) {
      off_t from = at, to = at;
      const ssize_t done = ::copy_file_range(in_.get(), &from, out_.get(), &to, count, 0);
      if (done > 0) return done;
      if (done < 0 && errno == EINTR) continue;
      if (done < 0 && (errno == ENOSPC || errno == EDQUOT)) fail_to_write(errno, to_);
      // Not supported between these file systems, or an error that read and write will report.
      in_kernel_ = false;
    }
    buffer_.resize(kChunk);
    ssize_t got = 0;
    do {
      got = ::pread(in_.get(), buffer_.data(), count, at);
    } while (got < 0 && errno == EINTR);
    if (got < 0) fail_errno(errno, from_ + ": cannot read");
    for (ssize_t written = 0; written < got;) {
      const ssize_t done = ::pwrite(out_.get(), buffer_.data() + written,
                                    static_cast<size_t>(got - written), at + written);
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) fail_to_write(errno, to_);
      written += done;
    }
    return got;
  }

  const std::string& from_;
  const std::string& to_;
  const std::function<void(uint64_t)>& progress_;
  Fd in_, out_;
  bool in_kernel_ = true;
  std::vector<char> buffer_;
};

}  // namespace

CopiedFile copy_file(const std::string& from, const std::string& to,
                     const std::function<void(uint64_t)>& progress) {
  return Copier(from, to, progress).run();
}

void fail_to_write(int error_number, const std::string& path) {
  if (error_number == ENOSPC || error_number == EDQUOT) {
    fail("{}: {}; free space there, or copy less", path,
         error_number == ENOSPC ? "the disk is full" : "the disk quota is used up");
  }
  fail_errno(error_number, path + ": cannot write");
}

}  // namespace adaptdl
