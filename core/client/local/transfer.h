#pragma once

// Files of the jobs of this machine's cluster, whose folders are here, and commands in their
// environment. No network is touched.

#include <memory>

#include "core/client/job_transfer.h"

namespace adaptdl::client {

std::unique_ptr<JobTransfer> local_transfer();

}  // namespace adaptdl::client
