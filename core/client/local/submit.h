#pragma once

// `adaptdl submit` to this machine's cluster.

#include <memory>

#include "core/client/job_request.h"

namespace adaptdl::client {

// Finds the program on this machine or in the project. Throws UsageError or Error.
std::unique_ptr<JobRequest> local_job_request(Submission submission);

}  // namespace adaptdl::client
