#pragma once

// What a name stands for on this machine: a job of its cluster, or a run of `adaptdl run`.

#include <optional>
#include <string>
#include <vector>

#include "core/cluster/local/client.h"

namespace adaptdl::client {

// Throws Error, with what was probably meant, when there is no job of that name. `store` may be
// null, as open_store() gives it.
local::JobRecord find_job(local::JobStore* store, const std::string& name);

// What a name stands for where it may be both: a job that has not ended, then a live run, then a
// job that has ended, then a run that has. Throws Error as find_job.
struct JobOrRun {
  std::optional<local::JobRecord> job;  // none: a run
};
JobOrRun find_job_or_run(local::JobStore* store, const std::string& name);

// Of jobs, `most` of them at most, and of live runs.
std::vector<std::string> job_and_run_names(local::JobStore* store, const std::string& prefix,
                                           int most);

}  // namespace adaptdl::client
