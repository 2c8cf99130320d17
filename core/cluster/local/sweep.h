#pragma once

// Removes what submissions and removals that were cut off left in LocalPaths::jobs.

#include <functional>
#include <string>

#include "core/cluster/local/paths.h"

namespace adaptdl::local {

// At the start of a service, before it takes submissions. `known`: whether the store has a job of
// that name. Folders of incoming() whose process has ended go, as do those of jobs that were never
// stored: with a job.json of theirs, and never a runner. Any other folder that is not known (the
// store may have been lost, and these be jobs with their checkpoints) stays, and so does what
// cannot be removed: a warning names them. Throws Error only if the folder cannot be listed.
void sweep_jobs(const LocalPaths& paths, const std::function<bool(const std::string& name)>& known);

}  // namespace adaptdl::local
