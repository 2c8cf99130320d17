#pragma once

// What the service does next about one job: a pure function of its state, called after every
// change. The service carries out the action and updates the state.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/cluster/local/slot_ledger.h"

namespace adaptdl::local {

// Seconds that a stopping runner may take beyond its grace time.
inline constexpr double kStopSlack = 15;

// Of a job that runs on slots of several kinds, since another service gave them to it.
inline constexpr int kAnyKind = -1;

// The state of one job. Slots are those of a SlotLedger.
struct JobState {
  int wanted = 0;             // replicas it should have now: 0 if it waits or is suspended
  bool cancelled = false;     // the job shall end
  int kind = 0;               // of the slots that it should have; kAnyKind: of those that it has
  int slots_per_replica = 1;  // >= 1
  TimePoint retry_at;         // no restart before then

  bool live = false;         // a runner's process lives
  bool stopping = false;     // ... and was told to stop
  TimePoint kill_at;         // ... and is killed at this time
  bool scaling = false;      // a scale request has no answer yet
  bool finished = false;     // its training is: the program goes on, on the slots that it has
  std::vector<int> granted;  // slots that the runner may use
  bool restarts = false;     // it takes other slots only by a restart: a command
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

// A job waits until all slots that it should have are available to it: the jobs that give them up
// have been told before, and have a deadline. `name`: the job's, in `slots`.
NextAction next_action(const std::string& name, const JobState& job, const SlotLedger& slots,
                       TimePoint now);

// The first of the jobs, by name, that is to move to slots of another kind and lacks some that
// other jobs have which are to move, too, and may be waiting for its own. It has to stop, and
// starts again on the others. "" if there is none, or a request is in flight, after which that may
// be so no more.
std::string stuck_job(const std::map<std::string, const JobState*>& jobs, const SlotLedger& slots);

// Seconds before a failed runner is restarted, after `failures` failures in a row: 1, 2, 4 ... 60.
double restart_delay_s(int failures);

}  // namespace adaptdl::local
