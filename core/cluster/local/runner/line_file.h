#pragma once

// What a runner writes beside the launcher's own files.

#include <optional>
#include <string>

#include "core/base/clock.h"
#include "core/base/fd.h"
#include "core/formats/json.h"

namespace adaptdl::local {

// A file (0600) to which whole lines are appended; once it would grow beyond `bytes_max` it becomes
// FILE.1 and begins anew. A disk that takes nothing loses lines, and holds up nobody. One thread.
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

// The stream of events in a file, one a line; of the steps at most one a second.
class EventFileSink {
 public:
  explicit EventFileSink(const std::string& path) : file_(path, 8 << 20) {}
  void event(const Json& event) noexcept;

 private:
  LineFile file_;
  std::optional<TimePoint> last_step_;
};

}  // namespace adaptdl::local
