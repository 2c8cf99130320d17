#pragma once

// Files that a runner writes in addition to the launcher's.

#include <optional>
#include <string>

#include "core/base/clock.h"
#include "core/base/fd.h"
#include "core/formats/json.h"

namespace adaptdl::local {

// A file (0600) to which whole lines are appended. Before it would exceed `bytes_max` it is renamed
// to FILE.1, and a new one begins. If the disk cannot be written, lines are lost without an error.
// One thread.
class LineFile {
 public:
  LineFile(std::string path, int64_t bytes_max);
  void add(std::string line) noexcept;

 private:
  void open();

  const std::string path_;
  const int64_t bytes_max_;
  Fd file_;
  int64_t size_ = 0;
};

// Writes events to a file, one per line: of steps at most one a second, of GPUs none.
class EventFileSink {
 public:
  explicit EventFileSink(const std::string& path) : file_(path, 8 << 20) {}
  void event(const Json& event) noexcept;

 private:
  LineFile file_;
  std::optional<TimePoint> last_step_;
};

}  // namespace adaptdl::local
