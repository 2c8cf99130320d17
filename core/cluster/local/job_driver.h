#pragma once

// Moves each job towards its allocation: starts its runner, tells it its slots, stops it, and reads
// its answers (next_action.h decides).

#include <optional>
#include <poll.h>
#include <string>
#include <vector>

#include "core/cluster/local/active_jobs.h"
#include "core/cluster/local/local_supervisor.h"
#include "core/cluster/local/machine.h"
#include "core/cluster/local/paths.h"
#include "core/cluster/local/slot_ledger.h"
#include "core/formats/json.h"

namespace adaptdl::local {

// A part of the service's loop: add_waits(), then, on news or at the deadline, take_news() and
// advance(). An error of one job does not affect the others: it is logged, and the action is
// retried a little later.
class JobDriver {
 public:
  struct Parts {
    ActiveJobs& jobs;
    SlotLedger& slots;
    LocalSupervisor& supervisor;
    const Machine& machine;
    const LocalPaths& paths;
    const std::string& adaptdl;  // path of this program, for runners
  };
  // Borrows all for its life.
  explicit JobDriver(const Parts& parts) : parts_(parts) {}

  // Loads the jobs, and finds the live runners and those that ended meanwhile. Call it once.
  void adopt();

  // Adds the descriptors to wait for; returns the deadline.
  TimePoint add_waits(std::vector<pollfd>& waits) const;
  // Handles answers of runners, hints of programs, and runners that have ended.
  void take_news();
  void advance();

 private:
  template <typename Act>
  void for_each_job(const Act& act);
  JobFolder folder_of(const ActiveJob& job) const;
  std::string supervisor_of(const ActiveJob& job) const;
  void restore_folder(const ActiveJob& job);
  void advance(ActiveJob& job);
  void stop(ActiveJob& job, const std::string& why);
  void give_up_move(ActiveJob& job);
  void keep_held(ActiveJob& job);
  void start(ActiveJob& job, int slots);
  void start_failed(ActiveJob& job, const std::string& message, bool disk_full);
  void scale(ActiveJob& job, const NextAction& next);
  void ask(ActiveJob& job, ActiveJob::Query kind);
  void take_answer(ActiveJob& job);
  void take_status(ActiveJob& job, const Json& status);
  void note_restartable(ActiveJob& job);
  std::optional<std::string> present_kind(const ActiveJob& job) const;
  void take_hints(ActiveJob& job, const Json& hints);
  bool runs_elsewhere(ActiveJob& job);
  void wait_elsewhere(ActiveJob& job);
  bool note_last_runner(ActiveJob& job);
  void runner_ended(ActiveJob& job, pid_t pid, std::optional<int> code);
  void runner_died(ActiveJob& job, bool stopping, std::optional<int> code);
  void end(ActiveJob& job, const std::string& phase, const std::string& reason,
           const std::string& message, std::optional<int> exit_code);
  void count_slots(ActiveJob& job);

  const Parts parts_;
};

}  // namespace adaptdl::local
