#pragma once

// Queries for the jobs of this machine's cluster and the runs of `adaptdl run`. Reads the state
// directly, also while the service is down. No network is touched.

#include <memory>

#include "core/client/job_query.h"

namespace adaptdl::client {

std::unique_ptr<JobQuery> local_query();

}  // namespace adaptdl::client
