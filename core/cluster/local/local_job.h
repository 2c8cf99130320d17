#pragma once

// One unfinished job, as the service holds it.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/cluster/local/job_step.h"
#include "core/cluster/local/runner.h"
#include "core/cluster/local/store.h"
#include "core/goodput/job_hints.h"
#include "core/job/job_spec.h"
#include "core/job/phase.h"

namespace adaptdl::local {

struct LocalJob {
  JobRecord record;
  JobSpec spec;
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
JobFacts facts_of(const LocalJob& job);

// What to show: phase_name(), or Suspended, Cancelled.
std::string phase_text(const LocalJob& job);

// job.json of its folder.
nlohmann::json runner_file(const LocalJob& job, const std::string& folder,
                           const std::string& slot_kind, const std::string& tensorboard_folder);

}  // namespace adaptdl::local
