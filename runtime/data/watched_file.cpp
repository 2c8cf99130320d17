#include "runtime/data/watched_file.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>

#include "core/base/clock.h"
#include "core/base/files.h"
#include "runtime/data/guarded_read.h"

namespace adaptdl::data {
namespace {

std::string described(const struct stat& status) {
  const double modified = static_cast<double>(status.st_mtim.tv_sec) +
                          1e-9 * static_cast<double>(status.st_mtim.tv_nsec);
  return fmt::format("{} bytes of {}", status.st_size, rfc3339(modified));
}

bool same(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

}  // namespace

void check_unchanged(const std::string& path, const struct stat& opened, const struct stat& now) {
  if (same(now, opened)) return;
  throw DataChanged(fmt::format(
      "{}: changed while the run uses it: {}, now {}; data must stay as they are until the run has "
      "ended: write changed data to another file, or run the same command again to continue with "
      "these from the newest checkpoint",
      path, described(opened), described(now)));
}

WatchedFile::WatchedFile(const std::string& path) : path_(path), file_(open_file(path, O_RDONLY)) {
  if (fstat(file_.get(), &opened_) != 0) fail_errno(errno, path + ": cannot read");
}

void WatchedFile::check() const {
  struct stat now = {};
  if (fstat(file_.get(), &now) != 0) {
    throw ReadFailed(fmt::format("{}: cannot read: {}", path_, std::strerror(errno)));
  }
  struct stat there = {};
  const bool replaced = stat(path_.c_str(), &there) == 0 && !same(there, opened_);
  check_unchanged(path_, opened_, replaced ? there : now);
}

}  // namespace adaptdl::data
