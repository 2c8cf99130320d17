#pragma once

#include <optional>
#include <string>

#include "core/base/clock.h"
#include "core/base/fd.h"

namespace adaptdl {

// What is written to one end is read from the other. Both are closed in programs that this process
// starts, unless they are handed on.
struct Pipe {
  Fd reader, writer;
  explicit Pipe(int flags = 0);  // of pipe2(2), such as O_NONBLOCK. Throws Error.
};

// The next line of what comes from `fd`, without its newline; nothing at the end and at the
// deadline, and of a line that is longer than 1 MiB. `rest`: what was read beyond it; of one `fd`,
// and "" at first.
std::optional<std::string> read_line(int fd, std::string& rest, TimePoint deadline);

}  // namespace adaptdl
