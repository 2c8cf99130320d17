#pragma once

// Waiting for file descriptors. Thread-safe as the system calls are.

#include <optional>
#include <poll.h>
#include <vector>

#include "core/base/clock.h"

namespace adaptdl {

void set_nonblocking(int fd, bool on = true);

// Waits until `fd` has one of the poll(2) `events`, an error or a hang-up; false at the deadline.
bool wait_ready(int fd, short events, std::optional<TimePoint> deadline = {});

// poll(2) until slightly after `deadline`; TimePoint::max() means no deadline. For event loops: may
// return earlier, for example after a signal.
void poll_until(std::vector<pollfd>& waits, TimePoint deadline);

}  // namespace adaptdl
