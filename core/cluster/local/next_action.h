#pragma once

// What the service does next about one job: a pure function of its state, called after every
// change. The service carries out the action and updates the state.

#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"

namespace adaptdl::local {

// Seconds that a stopping runner may take beyond its grace time.
inline constexpr double kStopSlack = 15;

// The state of one job. Slots are those of a SlotLedger.
struct JobState {
  int wanted = 0;             // replicas it should have now: 0 if it waits or is suspended
  bool cancelled = false;     // the job shall end
  int slots_per_replica = 1;  // >= 1
  TimePoint retry_at;         // no restart before then

  bool live = false;         // a runner's process lives
  bool stopping = false;     // ... and was told to stop
  TimePoint kill_at;         // ... and is killed at this time
  bool scaling = false;      // a scale request has no answer yet
  std::vector<int> granted;  // slots that the runner may use
};

struct NextAction {
  enum class Kind {
    none,    // until something changes, or `again`
    start,   // start a runner, with `take` more slots
    scale,   // tell the runner: keep the slots `keep`, and take `take` more
    stop,    // SIGTERM
    kill,    // SIGKILL: the runner has not stopped in time
    cancel,  // the job ends
  };
  Kind kind = Kind::none;
  int take = 0;
  std::vector<int> keep;
  std::optional<TimePoint> again;
};

// `free`: the number of free slots. A job waits until all slots that it should have are free: the
// jobs that give them up have been told before, and have a deadline.
NextAction next_action(const JobState& job, int free, TimePoint now);

// Seconds before a failed runner is restarted, after `failures` failures in a row: 1, 2, 4 ... 60.
double restart_delay_s(int failures);

}  // namespace adaptdl::local
