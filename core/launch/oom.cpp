#include "core/launch/oom.h"

#include <csignal>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/number.h"

namespace adaptdl::launch {

namespace {

constexpr size_t kMaxKernelFile = 1u << 20;
// Replicas that are killed together are noticed one after another.
constexpr std::chrono::seconds kMoment{2};

// The number after `key` and a blank at the start of a line.
std::optional<uint64_t> counter(const std::string& path, std::string_view key) {
  try {
    if (!path_exists(path)) return std::nullopt;
    const std::string text = "\n" + read_file(path, kMaxKernelFile);
    const std::string wanted = "\n" + std::string(key) + " ";
    const size_t at = text.find(wanted);
    if (at == std::string::npos) return std::nullopt;
    const size_t begin = at + wanted.size();
    return try_parse<uint64_t>(
        std::string_view(text).substr(begin, text.find('\n', begin) - begin));
  } catch (const Error&) {
    return std::nullopt;
  }
}

// The path in a line "ID:CONTROLLERS:PATH" of /proc/self/cgroup.
std::optional<std::string> group(const std::string& text, std::string_view controllers) {
  const std::string wanted = ":" + std::string(controllers) + ":";
  const size_t at = text.find(wanted);
  if (at == std::string::npos) return std::nullopt;
  const size_t begin = at + wanted.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace

std::optional<uint64_t> oom_kills(const std::string& root) {
  std::string groups;
  try {
    groups = read_file(join_path(root, "proc/self/cgroup"), kMaxKernelFile);
  } catch (const Error&) {
  }
  const std::string base = join_path(root, "sys/fs/cgroup");
  if (const auto path = group(groups, "memory")) {
    // Inside a container the group is mounted as the root.
    for (const std::string& at : {base + "/memory" + *path, base + "/memory"}) {
      if (const auto count = counter(at + "/memory.oom_control", "oom_kill")) return count;
    }
  }
  if (const auto path = group(groups, "")) {
    for (const std::string& at : {base + *path, base}) {
      if (const auto count = counter(at + "/memory.events", "oom_kill")) return count;
    }
  }
  return counter(join_path(root, "proc/vmstat"), "oom_kill");
}

bool OomWatch::explains(const ExitStatus& status) {
  if (!status.signaled || status.value != SIGKILL) return false;
  const std::optional<uint64_t> now = oom_kills(root_);
  if (now && before_ && *now > *before_) risen_ = Monotonic::now();
  before_ = now;
  return risen_ && Monotonic::now() - *risen_ < kMoment;
}

}  // namespace adaptdl::launch
