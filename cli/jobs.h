#pragma once

// The local cluster's jobs, and the runs of `adaptdl run`, as commands find and show them.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/output.h"
#include "core/cluster/local/client.h"
#include "core/launch/client.h"

namespace adaptdl::cli {

// Throws Error, with what was probably meant, when there is no job of that name. `store` may be
// null, as open_store() gives it.
local::JobRecord find_job(local::JobStore* store, const std::string& name);

// What a name stands for where it may be both: a job that has not ended, then a live run, then a
// job that has ended, then a run that has. Throws Error as find_job.
struct JobOrRun {
  std::optional<local::JobRecord> job;  // none: a run
};
JobOrRun find_job_or_run(local::JobStore* store, const std::string& name);

// Names that start with `prefix`, newest jobs first, then live runs; at most about `most`.
std::vector<std::string> job_and_run_names(local::JobStore* store, const std::string& prefix,
                                           int most);

// What its runner says of a job that has replicas now, else what the last one left (with
// `ended_too`), else null.
Json job_status(const local::JobRecord& job, bool ended_too);

// One line of `ls` and `top`, of a job or a run; every text is "-" where there is nothing to say.
struct JobRow {
  std::string name, kind, status, replicas, step, epoch, loss, age, restarts;
  std::string slots, started, runtime, reason, program;  // empty unless `wide`
};
JobRow job_row(const local::JobRecord& job, const Json& status, double now_s, bool wide);
JobRow run_row(const launch::RunInfo& run, double now_s, bool wide);
std::string rows_table(std::vector<JobRow> rows, bool wide);

// The records of `-o json`. Times are RFC 3339; null where there is none.
Json job_json(const local::JobRecord& job, const Json& status);
Json run_json(const launch::RunInfo& run);
Json event_json(const local::EventRecord& event);

// Seconds since 1970, now and of a time as rfc3339() writes it (nothing for another text).
double wall_now_s();
std::optional<double> wall_seconds(const std::string& rfc3339);
std::string time_text(double wall_s);  // RFC 3339

// "45s", "12m07s", "3h05m", "4d02h": without blanks, for columns.
std::string short_duration(double seconds);

}  // namespace adaptdl::cli
