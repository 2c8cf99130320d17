#pragma once

// The form of job files that AdaptDL's own clusters take: a Kubernetes object AdaptDLJob.

#include "core/formats/yaml.h"
#include "core/job/job_file.h"

namespace adaptdl {

// Reads an AdaptDLJob, for a cluster and for one machine. There only its first container is run,
// keys of the job itself must be known, and what of the pod has no use goes into JobFile::ignored.
// Throws Error "FILE:LINE: KEY ..." for what neither can run.
JobFile read_adaptdl_job(YamlMapping& top);

}  // namespace adaptdl
