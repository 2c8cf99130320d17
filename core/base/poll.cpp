#include "core/base/poll.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cmath>
#include <fcntl.h>

#include "core/base/error.h"

namespace adaptdl {
namespace {

// The earliest of all deadlines, TimePoint::min(), is too far away to be subtracted from.
double milliseconds_until(TimePoint deadline) {
  const TimePoint now = Monotonic::now();
  return deadline <= now ? 0 : seconds_between(now, deadline) * 1e3;
}

}  // namespace

void set_nonblocking(int fd, bool on) {
  const int flags = fcntl(fd, F_GETFL);
  const int wanted = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
  if (flags < 0 || fcntl(fd, F_SETFL, wanted) != 0) {
    fail_errno(errno, "cannot change a descriptor's flags");
  }
}

bool wait_ready(int fd, short events, std::optional<TimePoint> deadline) {
  for (;;) {
    int timeout_ms = -1;
    if (deadline) {
      timeout_ms = static_cast<int>(std::min(std::ceil(milliseconds_until(*deadline)), 1e9));
    }
    pollfd entry{fd, events, 0};
    const int count = ::poll(&entry, 1, timeout_ms);
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) fail_errno(errno, "cannot wait for a socket");
    if (deadline && Monotonic::now() >= *deadline) return false;
  }
}

void poll_until(std::vector<pollfd>& waits, TimePoint deadline) {
  int timeout_ms = -1;
  if (deadline != TimePoint::max()) {
    timeout_ms = static_cast<int>(std::min(std::ceil(milliseconds_until(deadline)), 60e3));
  }
  ::poll(waits.data(), waits.size(), timeout_ms);
}

}  // namespace adaptdl
