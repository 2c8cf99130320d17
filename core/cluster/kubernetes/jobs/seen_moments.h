#pragma once

// How long this process has known moments of the wall clock, such as those in a job's status. The
// wall clock may leap, or be another machine's; what was seen is counted by the monotonic clock.
// See elapsed_s().

#include <map>

#include "core/base/clock.h"

namespace adaptdl::kubernetes {

// Not thread-safe.
class SeenMoments {
 public:
  // Seconds since the first question for this moment (s since 1970), 0 then. Forgets moments for
  // which nobody has asked for two hours.
  double seen_s(double moment_s, TimePoint now);

 private:
  struct Seen {
    TimePoint first, asked;
  };
  std::map<double, Seen> seen_;
};

}  // namespace adaptdl::kubernetes
