#include "cli/show/display.h"

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <poll.h>
#include <pthread.h>
#include <thread>
#include <unistd.h>

#include "cli/frame/output.h"
#include "core/base/system.h"

namespace adaptdl::cli {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(200);
constexpr auto kLastWait = std::chrono::seconds(1);
constexpr size_t kMaxLines = 1000;  // waiting for a blocked terminal
constexpr size_t kChunk = 512;      // bytes that a descriptor accepts when poll says it is writable

}  // namespace

struct Display::Shared {
  explicit Shared(const Options& wanted) : options(wanted), terminal(isatty(wanted.fd) != 0) {}

  enum class Written { all, not_all, never_again };

  const Options options;
  const bool terminal;  // asked at once: one that has hung up no longer counts as one
  std::mutex mutex;
  std::condition_variable wake, finished;
  RunState state;
  ProgressLines progress;
  std::deque<std::string> lines;
  size_t dropped = 0;
  bool closing = false, done = false;

  void push(std::string line) {  // Requires: mutex held
    if (options.quiet) return;
    if (lines.size() == kMaxLines) {
      lines.pop_front();
      ++dropped;
    }
    lines.push_back(std::move(line));
    wake.notify_one();
  }

  bool is_closing() {
    const std::lock_guard lock(mutex);
    return closing;
  }

  // never_again: the descriptor is closed, or still blocked at the end. not_all: a full disk and
  // the like, which may pass.
  Written write(std::string_view text) {
    while (!text.empty()) {
      pollfd ready{.fd = options.fd, .events = POLLOUT, .revents = 0};
      const int count = poll(&ready, 1, 100);
      if (count == 0 || (count < 0 && errno == EINTR)) {
        if (is_closing()) return Written::never_again;
        continue;
      }
      const ssize_t written = ::write(options.fd, text.data(), std::min(text.size(), kChunk));
      if (written < 0) {
        if (errno == EINTR || errno == EAGAIN) continue;
        const bool gone = errno == EPIPE || errno == EBADF || (errno == EIO && terminal);
        return gone ? Written::never_again : Written::not_all;
      }
      text.remove_prefix(static_cast<size_t>(written));
    }
    return Written::all;
  }

  void loop() {
    bool drawn = false;
    std::vector<std::string> shown;
    std::unique_lock lock(mutex);
    for (;;) {
      if (options.moving) {
        wake.wait_for(lock, kRedraw, [&] { return closing || !lines.empty(); });
      } else {
        wake.wait(lock, [&] { return closing || !lines.empty(); });
      }
      const bool last = closing;
      const std::deque<std::string> taken = std::exchange(lines, {});
      const size_t lost = std::exchange(dropped, 0);
      const RunState now = state;
      lock.unlock();
      std::string text;
      const auto erase = [&] {
        if (drawn) text += "\r\x1b[K\x1b[1A\x1b[K";
        drawn = false;
      };
      if (lost > 0 || !taken.empty()) erase();
      if (lost > 0) text += fmt::format("({} line{} left out)\n", lost, lost == 1 ? "" : "s");
      for (const std::string& line : taken) text += line + "\n";
      const bool draw = options.moving && !last && !now.name.empty();
      if (draw) {
        const Look look{
            .width = terminal_width(options.fd), .utf8 = options.utf8, .color = options.color};
        const auto frame = display_lines(now, look);
        if (!drawn || frame != shown) {
          if (drawn) text += "\r\x1b[1A";
          text += frame[0] + "\x1b[K\n" + frame[1] + "\x1b[K";
          drawn = true;
          shown = frame;
        }
      }
      if (last) erase();
      const Written written = write(text);
      lock.lock();
      if (written == Written::not_all) {
        dropped += lost + taken.size();
        shown.clear();  // draws it again
      }
      if (written == Written::never_again || (last && lines.empty())) break;
    }
    done = true;
    finished.notify_all();
  }
};

Display::Display(const Options& options) : shared_(std::make_shared<Shared>(options)) {
  if (options.quiet) {
    shared_->done = true;
    return;
  }
  // Detached: the process can end even if the terminal blocks this thread forever.
  std::thread([shared = shared_] {
    pthread_setname_np(pthread_self(), "adl-display");
    shared->loop();
  }).detach();
}

Display::~Display() {
  finish();
}

void Display::event(const Json& event) {
  const std::lock_guard lock(shared_->mutex);
  std::string line =
      event_line(shared_->state, event, shared_->options.moving, shared_->options.verbose);
  shared_->state.apply(event);
  if (!line.empty()) shared_->push(std::move(line));
  if (shared_->options.moving) return;
  line = shared_->progress.event(shared_->state, event);
  if (!line.empty()) shared_->push(std::move(line));
}

void Display::talk(const std::string& line) {
  {
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->closing || !shared_->done) return shared_->push(line);
  }
  if (!shared_->options.quiet) shared_->write(line + "\n");
}

RunState Display::finish() {
  std::unique_lock lock(shared_->mutex);
  shared_->closing = true;
  shared_->wake.notify_one();
  shared_->finished.wait_for(lock, kLastWait, [&] { return shared_->done; });
  return shared_->state;
}

}  // namespace adaptdl::cli
