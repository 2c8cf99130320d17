#pragma once

// Removes what interrupted submissions left in LocalPaths::jobs, and undoes interrupted deletions.

#include <functional>
#include <string>

#include "core/cluster/local/paths.h"

namespace adaptdl::local {

// Call it at the start of a service, before it accepts submissions. `known`: whether the store has
// a job of that name. A folder of incoming() whose process has ended is renamed back if it is that
// of a stored job without one (whose deletion was cut off before the store knew), and else removed;
// so are those of jobs that were never stored: with their own job.json, or an
// empty one and nothing else, and never a runner. Keeps
// any other unknown folder, since the store may have been lost and the folder may hold a job's
// checkpoints; a warning names these folders, and those that cannot be removed. Throws Error only
// if LocalPaths::jobs cannot be listed.
void sweep_jobs(const LocalPaths& paths, const std::function<bool(const std::string& name)>& known);

}  // namespace adaptdl::local
