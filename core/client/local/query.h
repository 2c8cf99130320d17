#pragma once

// Looking at the jobs of this machine's cluster, and at the runs of `adaptdl run`: in the store,
// beside the service. No network is touched.

#include <memory>

#include "core/client/job_query.h"

namespace adaptdl::client {

std::unique_ptr<JobQuery> local_query();

}  // namespace adaptdl::client
