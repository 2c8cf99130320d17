#pragma once

// What the service of the local cluster starts for each job, detached: it runs the job, and
// outlives the service, which finds it again by the job's folder (job_folder.h).
// ADAPTDL_SUPERVISOR_URL: the address of the supervisor, for programs that speak to one.

#include <vector>

#include "core/cluster/local/runner/job_folder.h"

namespace adaptdl::local {

// Runs the job of `folder` on these slots, to its end, in this process; returns an exit code as
// job_folder.h has them. Throws Error, after it has been recorded.
int run_job_folder(const JobFolder& folder, const std::vector<int>& slots);

}  // namespace adaptdl::local
