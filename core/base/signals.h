#pragma once

// Signals as bytes on a descriptor, for an event loop.

#include <signal.h>
#include <utility>
#include <vector>

#include "core/base/fd.h"

namespace adaptdl {

// Catches the given signals (also as process 1, where nothing is caught by default) for its life,
// and ignores SIGPIPE and SIGXFSZ; then puts back what was there. At most one object at a time.
class SignalCatcher {
 public:
  explicit SignalCatcher(const std::vector<int>& signals);
  ~SignalCatcher();
  SignalCatcher(const SignalCatcher&) = delete;
  SignalCatcher& operator=(const SignalCatcher&) = delete;

  int fd() const { return reader_.get(); }  // readable when a signal has come
  std::vector<int> take();                  // those that came since, in order; does not block

 private:
  Fd reader_, writer_;
  std::vector<std::pair<int, struct sigaction>> before_;
};

}  // namespace adaptdl
