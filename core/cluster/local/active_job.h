#pragma once

// One job that has not ended, as the service holds it: what the store has of it, what is known of
// its runner, and what the machine makes of it.

#include <memory>
#include <optional>
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

namespace adaptdl::local {

inline constexpr const char* kUnschedulable = "Unschedulable";  // a reason; its job never fits

struct ActiveJob {
  JobRecord record;
  JobSpec spec;  // record.spec, read
  JobState state;
  RunnerProcess runner;
  TimePoint runner_since;
  enum class Query { status, scale, stop };
  std::unique_ptr<RunnerQuery> query;  // under way
  Query query_kind = Query::status;
  bool to_stop = false;           // it has not been told yet
  TimePoint ask_at;               // when to ask it again
  int unanswered = 0;             // in a row
  int training = 0, present = 0;  // replicas, as last told
  int64_t step = 0;               // as last told
  TimePoint counted;              // up to when record.service_s counts
  JobHints hints;
  std::optional<TimePoint> grows_since;  // when it was given slots that it does not use yet
  std::optional<double> start_s;         // how long that took last
  bool unsaved = false;                  // the record on disk is older
};

// Facts for phase_of(); nothing has ended.
JobFacts facts_of(const ActiveJob& job);

// What to show: phase_name(), or Suspended, Cancelled.
std::string phase_text(const ActiveJob& job);

// Adds what it has held since it was counted last: so many slots. To be called before they change.
void count_service(ActiveJob& job, size_t slots_held);

// Has the record say whether the machine can ever hold the job; true if it has changed.
bool note_shortage(ActiveJob& job, const Machine& machine);

// Replicas of a job whose user set no bound.
int most_replicas(const ActiveJob& job, const Machine& machine);

// Writes job.json: the specification as it is stored, and what the job is granted now, which may be
// other than at its submission: it was scaled, or the machine is another one. Throws Error.
void write_job_file(const ActiveJob& job, const LocalPaths& paths, const Machine& machine,
                    bool has_project);

}  // namespace adaptdl::local
