#pragma once

// Changes to the jobs of this machine's cluster, made by its service. No network is touched.

#include <memory>

#include "core/client/job_control.h"

namespace adaptdl::client {

std::unique_ptr<JobControl> local_control();

}  // namespace adaptdl::client
