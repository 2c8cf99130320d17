#pragma once

// The form of job files that AdaptDL's own clusters take: a Kubernetes object AdaptDLJob.

#include "core/base/yaml.h"
#include "core/job/job_file.h"

namespace adaptdl {

// Reads an AdaptDLJob. Only its first container is run. Keys of the job itself must be known; what
// of the pod has no use on one machine goes into JobFile::ignored. Throws Error "FILE:LINE: KEY
// ...".
JobFile read_adaptdl_job(YamlMapping& top);

}  // namespace adaptdl
