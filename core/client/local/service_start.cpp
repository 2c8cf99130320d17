#include "core/client/local/service_start.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/process.h"
#include "core/cluster/local/client.h"

namespace adaptdl::client {
namespace {

constexpr Seconds kPatience{20};  // a service with many jobs reads its state for a while
constexpr Seconds kOther{2};      // for another service that started first, once ours has ended
constexpr Seconds kGlance{0.2};   // until one that has just taken the lock has written its host
constexpr auto kStartInterval = std::chrono::milliseconds(2);
constexpr size_t kLogShown = 2000;

// The service's messages since the log had this size, on one line.
std::string said(const std::string& path, uint64_t since) {
  const Fd log = open_file(path, O_RDONLY);
  const uint64_t size = std::min<uint64_t>(file_size(path), since + kLogShown);
  std::string text(size > since ? size - since : 0, ' ');
  const ssize_t count = pread(log.get(), text.data(), text.size(), static_cast<off_t>(since));
  text.resize(count > 0 ? static_cast<size_t>(count) : 0);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (char& letter : text) {
    if (letter == '\n') letter = ' ';
  }
  return text.empty() ? "it printed nothing" : text;
}

}  // namespace

void start_service() {
  const local::LocalPaths paths = local::local_paths();
  make_directories(paths.folder, 0700);
  const Fd log = open_file(paths.log, O_WRONLY | O_APPEND | O_CREAT, 0600);
  const uint64_t before = file_size(paths.log);
  const Fd nothing = open_file("/dev/null", O_RDONLY);
  const SpawnOptions serve = {.argv = {"adaptdl", "serve"},
                              .path = "/proc/self/exe",
                              .directory = "/",
                              .descriptors = {{nothing.get(), 0}, {log.get(), 1}, {log.get(), 2}},
                              .die_with_parent = false,
                              .new_process_group = true};
  Child child = spawn(serve);
  const TimePoint begun = Monotonic::now();
  bool ended = false;
  TimePoint ended_at = begun;
  bool other = false;  // another service has the lock, and ours has ended
  while (!local::service_runs()) {
    if (!ended && child.poll()) {
      ended = true;
      ended_at = Monotonic::now();
    }
    const bool locked = ended && local::service_locked();
    if (locked && seconds_since(ended_at) > kGlance.count()) local::refuse_elsewhere();
    if (other && !locked) {  // that one was ending, for longer than ours waits
      child = spawn(serve);
      ended = false;
    }
    other = locked;
    const bool gone = ended && !locked && seconds_since(ended_at) > kOther.count();
    if (gone || seconds_since(begun) > kPatience.count()) {
      const std::string what = said(paths.log, before);
      if (!ended) child.release();  // it may still start
      fail("the service was started but does not answer ({}): {}", paths.log, what);
    }
    std::this_thread::sleep_for(kStartInterval);
  }
  if (!ended) child.release();
}

}  // namespace adaptdl::client
