#include "core/base/interruption.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <poll.h>
#include <unistd.h>
#include <utility>

#include "core/base/temporary.h"

namespace adaptdl {

Interruption::Interruption(const std::vector<int>& signals, std::function<void(int)> act)
    : act_(std::move(act)), catcher_(signals), thread_([this] { watch(); }) {}

Interruption::~Interruption() {
  over_.cancel();
  thread_.join();
}

void Interruption::watch() {
  for (;;) {
    std::array<pollfd, 2> fds{{{catcher_.fd(), POLLIN, 0}, {over_.fd(), POLLIN, 0}}};
    if (::poll(fds.data(), fds.size(), -1) < 0 && errno == EINTR) continue;
    if (fds[1].revents != 0) return;
    for (const int signal : catcher_.take()) {
      if (signal_ != 0) _exit(128 + signal);
      signal_ = signal;
      cancellation_.cancel();
      if (act_) act_(signal);
    }
  }
}

Interruption sweep_on_signals() {
  std::vector<int> signals;
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now {};
    sigaction(number, nullptr, &now);
    if (now.sa_handler != SIG_IGN) signals.push_back(number);
  }
  return Interruption(signals, [](int number) {
    sweep_temporary_paths();
    std::signal(number, SIG_DFL);
    std::raise(number);
    _exit(128 + number);  // a raised signal does not end process 1
  });
}

}  // namespace adaptdl
