#pragma once

// `adaptdl cp` with a job on Kubernetes: with tar, in one of its pods, or in a pod created for that
// (storage.h) when none runs. If the replica ends meanwhile, the copy begins again in another pod
// of the job. SIGINT, SIGTERM and SIGHUP end it and remove the created pod.

#include <string>

#include "core/client/job_copy.h"
#include "core/client/kubernetes/connection.h"
#include "core/formats/json.h"

namespace adaptdl::client {

// As JobTransfer::copy_from and copy_to. `job` is the AdaptDLJob, `place` a storage_path().
CopyResult copy_from_storage(KubernetesConnection& cluster, const Json& job,
                             const std::string& place, const std::string& to);
CopyResult copy_to_storage(KubernetesConnection& cluster, const std::string& from, const Json& job,
                           const std::string& place);

}  // namespace adaptdl::client
