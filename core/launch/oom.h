#pragma once

// Whether the system killed a process because memory ran out. The system does not tell the parent,
// but it counts such kills. Reads files below `root`, so that tests can bring their own.

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/process.h"

namespace adaptdl::launch {

// The number of processes killed so: in this process's control group (v2 memory.events, v1
// memory.oom_control), or, if that cannot be read, on this machine. Nothing if there is no count.
std::optional<uint64_t> oom_kills(const std::string& root = "/");

// One thread.
class OomWatch {
 public:
  explicit OomWatch(std::string root = "/") : root_(std::move(root)), before_(oom_kills(root_)) {}

  // Whether a child that ended so, and that we did not kill, was killed because memory ran out. A
  // rise of the count explains only deaths within the next moment.
  bool explains(const ExitStatus& status);

 private:
  const std::string root_;
  std::optional<uint64_t> before_;
  std::optional<TimePoint> risen_;
};

}  // namespace adaptdl::launch
