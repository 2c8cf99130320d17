#pragma once

// The logs of a job or run on standard output.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/base/clock.h"

namespace adaptdl::cli {

class LogFollower;

struct LogOptions {
  std::string name;  // of a job or run
  bool follow = false;
  bool prefix = false;  // "[NAME/ID] " instead of "[replica ID] ", also of a single replica
  std::optional<int64_t> replica;
  std::optional<int64_t> tail;   // lines of each replica
  std::optional<Seconds> since;  // back from now
};

// Returns when everything is printed that is wanted; false if no replica has a log yet. Throws
// Error: no such job, run or replica.
bool show_logs(const LogOptions& options);

// Prints what is new in the logs of a job, each time it is called; once `ended`, also a last line
// without a newline. One thread.
std::function<void(bool ended)> job_log_printer(const std::string& job);

}  // namespace adaptdl::cli
