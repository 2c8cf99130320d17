#pragma once

// `adaptdl cp` from and to jobs of this machine's cluster, whose folders lie here.

#include <string>

#include "cli/job_copy.h"

namespace adaptdl::cli {

// As ClusterJobs::copy_from and copy_to.
CopyResult copy_from_local_job(const std::string& job, const std::string& path,
                               const std::string& to);
CopyResult copy_to_local_job(const std::string& from, const std::string& job,
                             const std::string& path);

}  // namespace adaptdl::cli
