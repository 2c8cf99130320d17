#include "core/cluster/local/runner/line_file.h"

#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>

#include "core/base/error.h"
#include "core/base/files.h"

namespace adaptdl::local {

LineFile::LineFile(std::string path, int64_t bytes_max)
    : path_(std::move(path)), bytes_max_(bytes_max) {
  open();
}

void LineFile::open() {
  file_ = Fd(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  struct stat status {};
  size_ = file_ && fstat(file_.get(), &status) == 0 ? status.st_size : 0;
}

void LineFile::add(std::string line) noexcept {
  try {
    line += '\n';
    const auto length = static_cast<int64_t>(line.size());
    if (size_ > 0 && size_ + length > bytes_max_) {
      // The bound holds even where the file cannot be renamed.
      const bool renamed = std::rename(path_.c_str(), (path_ + ".1").c_str()) == 0;
      if (!renamed && file_ && ftruncate(file_.get(), 0) != 0) return;
      open();
    }
    if (!file_) return;
    write_all(file_.get(), line, path_);
    size_ += length;
  } catch (const std::exception&) {  // a full disk
  }
}

void EventFileSink::event(const Json& event) noexcept {
  const auto kind = event.find("event");
  if (kind != event.end() && *kind == "gpu") return;  // charts have them
  if (kind != event.end() && *kind == "step") {
    const TimePoint now = Monotonic::now();
    if (last_step_ && now - *last_step_ < std::chrono::seconds(1)) return;
    last_step_ = now;
  }
  file_.add(dump_json(event));
}

}  // namespace adaptdl::local
