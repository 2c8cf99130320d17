#pragma once

// Removes what interrupted submissions left in LocalPaths::jobs, and undoes interrupted deletions.

#include <functional>
#include <string>

#include "core/base/clock.h"
#include "core/cluster/local/paths.h"

namespace adaptdl::local {

// Whether the store has a job of that name.
using KnownJob = std::function<bool(const std::string& name)>;

// Call it at the start of a service, before it accepts submissions. Does as sweep_incoming(), and
// removes the folders of jobs that were never stored: with their own job.json, or an empty one and
// nothing else, and never a runner. Keeps any other unknown folder, since the store may have been
// lost and the folder may hold a job's checkpoints; a warning names these folders, and those that
// cannot be removed. Throws Error only if LocalPaths::jobs cannot be listed.
void sweep_jobs(const LocalPaths& paths, const KnownJob& known);

// A folder of incoming() whose process has ended, and that has not changed for `age`, is renamed
// back if it is that of a stored job without one (whose deletion was cut off before the store
// knew), and else removed. Throws Error only if LocalPaths::jobs cannot be listed.
void sweep_incoming(const LocalPaths& paths, const KnownJob& known, Seconds age);

}  // namespace adaptdl::local
