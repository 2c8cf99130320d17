#pragma once

// How a launcher that is told to stop leaves the run to another host (HostsOptions::hands_over).

#include <optional>
#include <vector>

#include "core/base/clock.h"
#include "core/launch/run/replica_set.h"
#include "core/launch/run/run.h"

namespace adaptdl::launch {

// One thread.
class HandOver {
 public:
  HandOver(const RunOptions& options, ReplicaSet& replicas);  // borrows both

  // Whether another host can lead in place of this one, which has not begun to leave.
  bool possible() const;
  // This host's slots are not the run's from now on, so that its replicas leave.
  void begin() { since_ = Monotonic::now(); }

  enum class Next {
    go_on,
    stop,   // the others were told to stop, too: the run ends
    leave,  // another host may lead now
  };
  // `slots`: the run's. Makes `deadline` earlier: when to ask again.
  Next next(const std::vector<int>& slots, std::optional<TimePoint>& deadline) const;

 private:
  const RunOptions& options_;
  ReplicaSet& replicas_;
  std::optional<TimePoint> since_;
};

}  // namespace adaptdl::launch
