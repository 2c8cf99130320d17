#include "core/base/cancellation.h"

#include <cerrno>
#include <cstdint>
#include <poll.h>
#include <sys/eventfd.h>

#include "core/base/poll.h"

namespace adaptdl {

Cancellation::Cancellation() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!fd_) fail_errno(errno, "cannot make an event descriptor");
}

void Cancellation::cancel() noexcept {
  const uint64_t one = 1;
  // Fails only if the counter is full, which also means cancelled.
  [[maybe_unused]] const auto written = ::write(fd_.get(), &one, sizeof(one));
}

bool Cancellation::cancelled() const noexcept {
  pollfd look{fd_.get(), POLLIN, 0};
  return ::poll(&look, 1, 0) == 1;
}

bool Cancellation::wait_for(Seconds duration) const {
  return wait_ready(fd_.get(), POLLIN,
                    Monotonic::now() + std::chrono::duration_cast<Monotonic::duration>(duration));
}

}  // namespace adaptdl
