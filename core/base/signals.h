#pragma once

// Signals as bytes on a descriptor, for an event loop.

#include <signal.h>
#include <utility>
#include <vector>

#include "core/base/fd.h"

namespace adaptdl {

// During its lifetime, catches the given signals (also as process 1, where the defaults do nothing)
// and ignores SIGPIPE and SIGXFSZ; then restores the previous handlers. At most one object at a
// time.
class SignalCatcher {
 public:
  explicit SignalCatcher(const std::vector<int>& signals);
  ~SignalCatcher();
  SignalCatcher(const SignalCatcher&) = delete;
  SignalCatcher& operator=(const SignalCatcher&) = delete;

  int fd() const { return reader_.get(); }  // readable when a signal has come
  std::vector<int> take();  // the signals received since the last call, in order; does not block

 private:
  Fd reader_, writer_;
  std::vector<std::pair<int, struct sigaction>> before_;
};

}  // namespace adaptdl
