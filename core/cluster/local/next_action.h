#pragma once

// What the service does next about one job: a pure function of what is known of it, called after
// every change. The service carries it out and says so by changing what is known.

#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"

namespace adaptdl::local {

// How long a runner that was told to stop may take beyond its own grace, in seconds.
inline constexpr double kStopSlack = 15;

// Of one job. Slots are those of a SlotLedger.
struct JobState {
  int wanted = 0;             // replicas that it is to have now: 0 if it waits, or is suspended
  bool cancelled = false;     // is to end
  int slots_per_replica = 1;  // >= 1
  TimePoint retry_at;         // before then it is not started again

  bool live = false;         // a runner's process is there
  bool stopping = false;     // ... and was told to stop
  TimePoint kill_at;         // ... and has until then
  bool scaling = false;      // a request is under way whose answer has not come
  std::vector<int> granted;  // slots that the runner was told it may use
};

struct NextAction {
  enum class Kind {
    none,    // until something changes, or `again`
    start,   // a runner, with `take` more slots
    scale,   // tell the runner: `keep` of those it has, and `take` more
    stop,    // SIGTERM
    kill,    // SIGKILL: it has not stopped in time
    cancel,  // it is over: the job ends
  };
  Kind kind = Kind::none;
  int take = 0;
  std::vector<int> keep;
  std::optional<TimePoint> again;
};

// `free`: slots that nobody has. A job waits until all that it is to have are free: those who give
// have been told before, and have a deadline.
NextAction next_action(const JobState& job, int free, TimePoint now);

// Seconds before a runner that ended badly is started again, after so many in a row: 1, 2, 4
// ... 60.
double restart_delay_s(int failures);

}  // namespace adaptdl::local
