#pragma once

// The logs of a run's replicas: LOG_DIR/replica-ID.log, and its predecessor replica-ID.log.1.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/fd.h"

namespace adaptdl::client {

// Called with a replica's number and one line of its log, without the newline.
using LogLine = std::function<void(int64_t replica, const std::string& line)>;

// Reads new lines as they come, across rotations. One thread.
class LogFollower {
 public:
  // `only`: reads only that replica's log. Reads nothing yet; a missing folder counts as empty.
  LogFollower(std::string folder, std::optional<int64_t> only);

  // Passes on the last `count` lines of each replica (nothing: all) that are not older than
  // `since`, to the second, one replica after the other. Later calls of next() start after them. A
  // last line without a newline is one of the `count`, and waits for next(). Throws Error.
  void tail(std::optional<int64_t> count, std::optional<Seconds> since, const LogLine& take);

  // Passes on new lines; returns whether there were any. Incomplete lines wait, unless `all`.
  bool next(const LogLine& take, bool all);

  // Replicas seen so far.
  size_t replicas() const { return logs_.size(); }

 private:
  struct Log {
    Fd file;
    std::string partial;
  };

  void find_new();
  std::string path(int64_t replica) const;
  bool read(int64_t replica, Log& log, const LogLine& take);

  std::string folder_;
  std::optional<int64_t> only_;
  std::map<int64_t, Log> logs_;
};

}  // namespace adaptdl::client
