#pragma once

// A data file as it was when a run opened it. Replicas that start later read it again, so it must
// not change, and not be replaced, until the run has ended.

#include <string>
#include <sys/stat.h>

#include "core/base/error.h"
#include "core/base/fd.h"

namespace adaptdl::data {

// A file has changed under the run, which ends all replicas.
class DataChanged : public Error {
 public:
  using Error::Error;
};

// Throws DataChanged if the file, or another one in its place, differs from what was opened in size
// or time of modification.
void check_unchanged(const std::string& path, const struct stat& opened, const struct stat& now);

// Immutable; any thread.
class WatchedFile {
 public:
  // Throws Error if the file cannot be opened.
  explicit WatchedFile(const std::string& path);

  // Throws DataChanged if the file's size or time of modification has changed, or if another file
  // has its place; ReadFailed if that cannot be found out. Takes about a microsecond. A file that
  // was removed has not changed.
  void check() const;

 private:
  std::string path_;
  Fd file_;
  struct stat opened_ = {};
};

}  // namespace adaptdl::data
