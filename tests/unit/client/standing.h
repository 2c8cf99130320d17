#pragma once

#include <fcntl.h>
#include <unistd.h>

#include "core/base/fd.h"

namespace adaptdl::client {

// One of this process's standard descriptors as something else, for a while.
class Standing {
 public:
  Standing(int number, int with) : number_(number), before_(::fcntl(number, F_DUPFD_CLOEXEC, 3)) {
    ::dup2(with, number_);
  }
  ~Standing() { ::dup2(before_.get(), number_); }
  Standing(const Standing&) = delete;
  Standing& operator=(const Standing&) = delete;

 private:
  const int number_;
  const Fd before_;
};

}  // namespace adaptdl::client
