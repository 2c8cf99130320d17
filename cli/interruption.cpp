#include "cli/interruption.h"

#include <array>
#include <cerrno>
#include <poll.h>

namespace adaptdl::cli {

Interruption::Interruption(const std::vector<int>& signals)
    : catcher_(signals), thread_([this] { watch(); }) {}

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
      signal_ = signal;
      cancellation_.cancel();
    }
  }
}

}  // namespace adaptdl::cli
