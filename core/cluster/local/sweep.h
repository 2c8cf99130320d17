#pragma once

// Removes what interrupted submissions and deletions left in LocalPaths::jobs.

#include <functional>
#include <string>

#include "core/cluster/local/paths.h"

namespace adaptdl::local {

// Call it at the start of a service, before it accepts submissions. `known`: whether the store has
// a job of that name. Removes the folders of incoming() whose process has ended, and those of jobs
// that were never stored: with their own job.json, and never a runner. Keeps any other unknown
// folder, since the store may have been lost and the folder may hold a job's checkpoints; a warning
// names these folders, and those that cannot be removed. Throws Error only if LocalPaths::jobs
// cannot be listed.
void sweep_jobs(const LocalPaths& paths, const std::function<bool(const std::string& name)>& known);

}  // namespace adaptdl::local
