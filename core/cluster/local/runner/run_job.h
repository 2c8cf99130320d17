#pragma once

// The runner, which the service of the local cluster starts for each job, detached. It runs the job
// and outlives the service, which finds it again by the job's folder (job_folder.h).
// ADAPTDL_SUPERVISOR_URL: the supervisor's address, for programs that use one.

#include <vector>

#include "core/cluster/local/runner/job_folder.h"

namespace adaptdl::local {

// Runs the job of `folder` on these slots, to its end, in this process; returns an exit code of
// job_folder.h. Throws Error, after recording it. A full disk is not recorded, since the job may
// start again.
int run_job_folder(const JobFolder& folder, const std::vector<int>& slots);

}  // namespace adaptdl::local
