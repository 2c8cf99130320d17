#pragma once

// The jobs of this machine's cluster, and the runs of `adaptdl run`, as commands find them.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/cluster_jobs.h"
#include "core/cluster/local/client.h"

namespace adaptdl::cli {

// Reads beside the service, and asks it for changes. No network is touched.
std::unique_ptr<ClusterJobs> open_local_jobs();

// Throws Error, with what was probably meant, when there is no job of that name. `store` may be
// null, as open_store() gives it.
local::JobRecord find_job(local::JobStore* store, const std::string& name);

// What a name stands for where it may be both: a job that has not ended, then a live run, then a
// job that has ended, then a run that has. Throws Error as find_job.
struct JobOrRun {
  std::optional<local::JobRecord> job;  // none: a run
};
JobOrRun find_job_or_run(local::JobStore* store, const std::string& name);

// What its runner says of a job that has replicas now, else what the last one left (with
// `ended_too`), else null.
Json job_status(const local::JobRecord& job, bool ended_too);

// `job` may be moved from.
JobView local_view(local::JobRecord&& job, Json status);

}  // namespace adaptdl::cli
