#pragma once

// `adaptdl cp` with a job on Kubernetes: by tar, in one of its pods, or in a pod made for that
// (kubernetes_storage.h) when none runs. If the replica in which it works ends, it begins again
// where the job is by then. SIGINT, SIGTERM and SIGHUP end it, and remove that pod.

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
