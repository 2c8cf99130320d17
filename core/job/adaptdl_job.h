#pragma once

// The job file format of AdaptDL's own clusters: a Kubernetes object AdaptDLJob.

#include "core/formats/yaml.h"
#include "core/job/job_file.h"

namespace adaptdl {

// Reads an AdaptDLJob, for a cluster and for one machine. One machine runs only the first
// container, rejects unknown keys of the job, and lists pod settings without effect in
// JobFile::ignored. Throws Error "FILE:LINE: KEY ..." if neither can run the job.
JobFile read_adaptdl_job(YamlMapping& top);

}  // namespace adaptdl
