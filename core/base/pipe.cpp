#include "core/base/pipe.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/poll.h"

namespace adaptdl {

Pipe::Pipe(int flags) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | flags) != 0) fail_errno(errno, "cannot create a pipe");
  reader = Fd(ends[0]);
  writer = Fd(ends[1]);
}

std::optional<std::string> read_line(int fd, std::string& rest, TimePoint deadline) {
  constexpr size_t kLongest = 1 << 20;
  for (;;) {
    if (const size_t end = rest.find('\n'); end != std::string::npos) {
      std::string line = rest.substr(0, end);
      rest.erase(0, end + 1);
      return line;
    }
    std::vector<pollfd> waits{{fd, POLLIN, 0}};
    poll_until(waits, deadline);
    if (waits[0].revents == 0) {
      if (Monotonic::now() >= deadline) return std::nullopt;
      continue;
    }
    char bytes[4096];
    const ssize_t got = ::read(fd, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || rest.size() > kLongest) return std::nullopt;
    rest.append(bytes, static_cast<size_t>(got));
  }
}

}  // namespace adaptdl
