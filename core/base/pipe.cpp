#include "core/base/pipe.h"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

#include "core/base/error.h"

namespace adaptdl {

Pipe::Pipe(int flags) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | flags) != 0) fail_errno(errno, "cannot create a pipe");
  reader = Fd(ends[0]);
  writer = Fd(ends[1]);
}

}  // namespace adaptdl
