#include "core/base/signals.h"

#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/pipe.h"

namespace adaptdl {

namespace {

std::atomic<int> signal_pipe{-1};
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int number) {
  const int saved = errno;
  const auto byte = static_cast<unsigned char>(number);
  [[maybe_unused]] const ssize_t written = ::write(signal_pipe.load(), &byte, 1);
  errno = saved;
}

}  // namespace

SignalCatcher::SignalCatcher(const std::vector<int>& signals) {
  ADAPTDL_CHECK(signal_pipe.load() < 0);
  Pipe pipe(O_NONBLOCK);
  reader_ = std::move(pipe.reader);
  writer_ = std::move(pipe.writer);
  signal_pipe = writer_.get();
  const auto install = [this](int number, void (*handler)(int)) {
    struct sigaction action {
    }, old{};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, &old);
    before_.emplace_back(number, old);
  };
  for (const int number : signals) install(number, on_signal);
  install(SIGPIPE, SIG_IGN);
  install(SIGXFSZ, SIG_IGN);  // beyond the file size limit, write() then fails with EFBIG
}

SignalCatcher::~SignalCatcher() {
  for (const auto& [number, action] : before_) sigaction(number, &action, nullptr);
  signal_pipe = -1;
}

std::vector<int> SignalCatcher::take() {
  std::vector<int> result;
  unsigned char bytes[64];
  for (;;) {
    const ssize_t n = ::read(reader_.get(), bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return result;
    result.insert(result.end(), bytes, bytes + n);
  }
}

}  // namespace adaptdl
