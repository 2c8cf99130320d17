#pragma once

// What a name means on this machine: a job of its cluster, or a run of `adaptdl run`.

#include <optional>
#include <string>
#include <vector>

#include "core/cluster/local/client.h"

namespace adaptdl::client {

// Throws Error, with a suggestion, if no job has that name. `store` may be null, as from
// open_store().
local::JobRecord find_job(local::JobStore* store, const std::string& name);

// If both have the name: a job that has not ended, then a live run, then a job that has ended, then
// a run that has ended. Throws Error as find_job.
struct JobOrRun {
  std::optional<local::JobRecord> job;  // none: a run
};
JobOrRun find_job_or_run(local::JobStore* store, const std::string& name);

// Names of at most `most` jobs, and of live runs.
std::vector<std::string> job_and_run_names(local::JobStore* store, const std::string& prefix,
                                           int most);

}  // namespace adaptdl::client
