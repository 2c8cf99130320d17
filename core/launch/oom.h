#pragma once

// Whether the system killed a process because memory ran out: nobody tells its parent, but the
// system counts. Files below `root`, so that tests can bring their own.

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/process.h"

namespace adaptdl::launch {

// How many processes were killed so: in this process's control group (v2 memory.events, v1
// memory.oom_control), or, where that cannot be read, on this machine. Nothing if nobody counts.
std::optional<uint64_t> oom_kills(const std::string& root = "/");

// One thread.
class OomWatch {
 public:
  explicit OomWatch(std::string root = "/") : root_(std::move(root)), before_(oom_kills(root_)) {}

  // A child ended so, and nobody of ours had killed it: whether memory had run out. Each rise of
  // the count explains the deaths of a moment only.
  bool explains(const ExitStatus& status);

 private:
  const std::string root_;
  std::optional<uint64_t> before_;
  std::optional<TimePoint> risen_;
};

}  // namespace adaptdl::launch
