#pragma once

// Events of the jobs of a Kubernetes cluster.

#include <memory>
#include <string>
#include <vector>

#include "core/client/job_query.h"
#include "core/client/kubernetes/connection.h"

namespace adaptdl::client {

// Of a job and its pods, or of all jobs without their pods if `job` is empty; by time.
std::vector<JobEvent> list_kubernetes_events(KubernetesConnection& cluster, const std::string& job);

// `follow`: they are watched in a thread. `cluster` outlives it.
std::unique_ptr<EventReader> read_kubernetes_events(KubernetesConnection& cluster,
                                                    const std::string& job, bool follow);

}  // namespace adaptdl::client
