#pragma once

#include "core/base/fd.h"

namespace adaptdl {

// What is written to one end is read from the other. Both are closed in programs that this process
// starts, unless they are handed on.
struct Pipe {
  Fd reader, writer;
  explicit Pipe(int flags = 0);  // of pipe2(2), such as O_NONBLOCK. Throws Error.
};

}  // namespace adaptdl
