#pragma once

// Events of the jobs of a Kubernetes cluster.

#include <memory>
#include <string>
#include <vector>

#include "core/client/job_query.h"
#include "core/client/kubernetes/connection.h"

namespace adaptdl::client {

// Events of a job and its pods, or of all jobs without their pods if `job` is empty; ordered by
// time.
std::vector<JobEvent> list_kubernetes_events(KubernetesConnection& cluster, const std::string& job);

// `follow`: watches them in a thread. `cluster` outlives the reader.
std::unique_ptr<EventReader> read_kubernetes_events(KubernetesConnection& cluster,
                                                    const std::string& job, bool follow);

}  // namespace adaptdl::client
