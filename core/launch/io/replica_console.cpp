#include "core/launch/io/replica_console.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <poll.h>
#include <pthread.h>
#include <system_error>
#include <thread>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/number.h"
#include "core/base/text.h"

namespace adaptdl::launch {

namespace {

constexpr size_t kMostBehind = 16u << 20;
constexpr size_t kMostLine = 64u << 10;
constexpr std::chrono::milliseconds kDrainStep{50};

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size())) {
    text.replace(at, what.size(), by);
  }
}

std::string_view last_state(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  const size_t overwritten = line.rfind('\r');
  return overwritten == std::string_view::npos ? line : line.substr(overwritten + 1);
}

int parse_streams_of(std::string_view text, const std::string& where) {
  const auto value = try_parse<int>(text);
  if (value && *value >= 0 && *value <= 3) return *value;
  throw UsageError(fmt::format(
      "{}: invalid value {}; use 0 (none), 1 (standard output), 2 (standard error) or 3 (both), or "
      "RANK:VALUE,... for single replicas.",
      where, text.empty() ? "''" : text));
}

}  // namespace

bool StreamChoice::has(int rank, int stream) const {
  if (by_rank.empty()) return (all & stream) != 0;
  const auto found = by_rank.find(rank);
  return found != by_rank.end() && (found->second & stream) != 0;
}

StreamChoice parse_streams(const std::string& text, const std::string& where) {
  StreamChoice choice;
  if (text.find(':') == std::string::npos) {
    choice.all = parse_streams_of(text, where);
    return choice;
  }
  for (const std::string& part : split(text, ',')) {
    const size_t colon = std::min(part.find(':'), part.size());
    const auto rank = try_parse<int>(std::string_view(part).substr(0, colon));
    if (!rank || *rank < 0 || colon == part.size()) parse_streams_of(part + " ", where);
    choice.by_rank[*rank] = parse_streams_of(std::string_view(part).substr(colon + 1), where);
  }
  return choice;
}

std::string LineSplitter::take(std::string_view bytes, std::string_view prefix, bool states) {
  std::string lines;
  const auto add = [&](std::string_view line) {
    lines.append(prefix).append(last_state(line)).push_back('\n');
  };
  if (bytes.empty() && !rest_.empty()) add(std::exchange(rest_, {}));
  // The line's end has come after its last piece, which had one already.
  if (std::exchange(cut_, cut_ && bytes.empty()) && bytes.starts_with('\n')) bytes.remove_prefix(1);
  while (!bytes.empty()) {
    const size_t end = std::min(bytes.find('\n'), bytes.size());
    rest_.append(bytes.substr(0, end));
    if (end < bytes.size() || rest_.size() >= kMostLine) {
      cut_ = end == bytes.size();
      add(std::exchange(rest_, {}));
    }
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
  }
  // Of a progress bar that runs for hours only the last state is kept.
  if (const size_t back = rest_.rfind('\r'); back != std::string::npos && back + 1 < rest_.size()) {
    if (states)
      lines.append(prefix).append(last_state(std::string_view(rest_).substr(0, back))) += '\r';
    rest_.erase(0, back + 1);
  }
  return lines;
}

// Outlives the ReplicaConsole if a write never returns.
struct ReplicaConsole::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::pair<int, std::string>> queue;  // descriptor, text
  size_t size = 0, dropped = 0;                   // bytes
  bool busy = false, quit = false;
  bool prefix = false;
  int first_rank = 0;
  std::map<std::pair<MemberId, int>, LineSplitter> splitters;
  int err = 2;
  std::function<void()> broken;
  bool told_broken = false;  // of the thread
  std::thread thread;

  void put(int fd, std::string text) {  // under the mutex
    if (text.empty()) return;
    if (size + text.size() > kMostBehind) {
      dropped += text.size();
      return;
    }
    tell_dropped();
    size += text.size();
    queue.emplace_back(fd, std::move(text));
    changed.notify_all();
  }

  void tell_dropped() {  // under the mutex
    if (dropped == 0) return;
    queue.emplace_back(err,
                       fmt::format("adaptdl: {} of output are not shown, as this output is read "
                                   "too slowly; the logs have them\n",
                                   format_bytes(std::exchange(dropped, 0))));
    size += queue.back().second.size();
  }

  // Returns 0, or the error number.
  static int write(int fd, std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::write(fd, text.data(), text.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) {  // somebody made the terminal non-blocking
        pollfd wait{fd, POLLOUT, 0};
        ::poll(&wait, 1, -1);
        continue;
      }
      if (n < 0) return errno;
      text.remove_prefix(static_cast<size_t>(n));
    }
    return 0;
  }

  // A reader that has gone away (EPIPE) ends the output, not the run. For a failure of `err` there
  // is no place to report it.
  void show(int fd, std::string_view text) {
    const int error = write(fd, text);
    if (error == 0 || error == EPIPE || fd == err || std::exchange(told_broken, true)) return;
    write(err, fmt::format("adaptdl: standard output: cannot write: {}; the logs have all that the "
                           "replicas write\n",
                           std::generic_category().message(error)));
    broken();
  }

  void loop() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return quit || !queue.empty(); });
      if (queue.empty()) return;
      const auto [fd, text] = std::move(queue.front());
      queue.pop_front();
      size -= text.size();
      busy = true;
      lock.unlock();
      show(fd, text);
      lock.lock();
      busy = false;
      if (!quit && queue.empty()) tell_dropped();  // perhaps no other text comes
      changed.notify_all();
    }
  }
};

ReplicaConsole::ReplicaConsole(ConsoleOptions options)
    : options_(std::move(options)),
      terminal_{isatty(options_.out) != 0, isatty(options_.err) != 0},
      shared_(std::make_shared<Shared>()) {
  shared_->prefix = options_.prefix_one;
  shared_->err = options_.err;
  shared_->broken = options_.broken;
  shared_->thread = std::thread([shared = shared_] {
    pthread_setname_np(pthread_self(), "console");
    shared->loop();
  });
}

ReplicaConsole::~ReplicaConsole() {
  bool blocked;
  {
    std::lock_guard lock(shared_->mutex);
    shared_->quit = true;
    shared_->queue.clear();
    blocked = shared_->busy;
  }
  shared_->changed.notify_all();
  if (blocked) {
    shared_->thread.detach();
  } else {
    shared_->thread.join();
  }
}

void ReplicaConsole::replicas(int count, int first_rank) {
  std::lock_guard lock(shared_->mutex);
  shared_->prefix = shared_->prefix || count > 1;
  shared_->first_rank = first_rank;
}

void ReplicaConsole::take(MemberId rank, int stream, std::string_view bytes) {
  std::lock_guard lock(shared_->mutex);
  const int local = static_cast<int>(rank) - shared_->first_rank;
  const auto& ranks = options_.ranks;
  const bool wanted = ranks.empty() || std::find(ranks.begin(), ranks.end(), local) != ranks.end();
  if (!wanted || !options_.shown(local, stream)) return;
  const int fd = stream == 1 ? options_.out : options_.err;
  if (!shared_->prefix) {  // one replica: as if it wrote here itself
    shared_->put(fd, std::string(bytes));
    return;
  }
  std::string prefix;
  if (options_.prefixed(local, stream)) {
    prefix = options_.prefix;
    replace_all(prefix, "${role_name}", options_.role);
    replace_all(prefix, "${local_rank}", std::to_string(local));
    replace_all(prefix, "${rank}", std::to_string(rank));
  }
  shared_->put(fd, shared_->splitters[{rank, stream}].take(bytes, prefix, terminal_[stream - 1]));
}

bool ReplicaConsole::drain(TimePoint deadline) {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_until(lock, deadline,
                                     [this] { return shared_->queue.empty() && !shared_->busy; });
}

void ReplicaConsole::drain(SignalCatcher& signals) {
  while (!drain(Monotonic::now() + kDrainStep)) {
    for (const int number : signals.take()) {
      if (number != SIGCHLD) return;
    }
  }
}

}  // namespace adaptdl::launch
