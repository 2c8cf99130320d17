#pragma once

// One unfinished job as the service holds it: its stored record, the state of its runner, and what
// the scheduler needs to know.

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/cluster/local/machine.h"
#include "core/cluster/local/next_action.h"
#include "core/cluster/local/paths.h"
#include "core/cluster/local/runner/runner_process.h"
#include "core/cluster/local/runner/runner_query.h"
#include "core/cluster/local/store.h"
#include "core/goodput/job_hints.h"
#include "core/job/job_spec.h"
#include "core/job/phase.h"
#include "core/sched/length_history.h"

namespace adaptdl::local {

// Reasons: the job can never fit; another machine, or another container, runs it.
inline constexpr const char* kUnschedulable = "Unschedulable";
inline constexpr const char* kRunsElsewhere = "RunsElsewhere";

struct ActiveJob {
  JobRecord record;
  JobSpec spec;  // record.spec, parsed
  JobLikeness likeness;
  JobState state;
  RunnerProcess runner;
  TimePoint runner_since;
  enum class Query { status, scale, stop };
  std::unique_ptr<RunnerQuery> query;  // in flight
  Query query_kind = Query::status;
  bool to_stop = false;           // the runner still has to be told to stop
  bool to_scale = false;          // ... of its slots
  TimePoint ask_at;               // time of the next query
  int unanswered = 0;             // queries in a row
  int training = 0, present = 0;  // replicas, from the last status
  int64_t step = 0;               // from the last status
  TimePoint counted;              // record.service_s is counted up to this time
  JobHints hints;
  struct Change {
    TimePoint since;
    bool grows = false;
  };
  std::optional<Change> change;               // of its slots, until it trains with them alone
  std::set<int> unfit_kinds;                  // of slots: on these it could not start
  std::optional<double> start_s;              // how long it took last to use new slots
  std::optional<TimePoint> restarting_since;  // of a command: the change after which it runs now
  bool restartable = false;                   // its command has exited with 143 when asked to stop
  bool unsaved = false;                       // the record on disk is outdated
};

// Facts for phase_of(), of an unfinished job.
JobFacts facts_of(const ActiveJob& job);

// The phase to show: phase_name(), or Suspended, Cancelled.
std::string phase_text(const ActiveJob& job);

// Adds the service since the last count, for `slots_held` slots. Call it before their number
// changes.
void count_service(ActiveJob& job, size_t slots_held);

// Notes in the record whether the machine can ever hold the job; true if the record has changed.
bool note_shortage(ActiveJob& job, const Machine& machine);

// The most replicas of a job whose user set no bound; where there are no slots of the kinds that it
// names, as if all were.
int most_replicas(const ActiveJob& job, const Machine& machine);

// Writes job.json, and its folder, if that changes its content: the stored specification and the
// present grant, which differs from that at the submission if the job was scaled or the machine has
// changed. A change is durable; a new file only with sync_job_folder(). Throws Error.
void write_job_file(const ActiveJob& job, const LocalPaths& paths, const Machine& machine,
                    bool has_project);

}  // namespace adaptdl::local
