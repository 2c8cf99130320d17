#pragma once

// Chooses a pod of a job on Kubernetes to run a command in.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/client/kubernetes/connection.h"
#include "core/formats/json.h"

namespace adaptdl::client {

struct RunningPod {
  kube::Resource pod;
  std::string container;  // the program's: the first one
};

// The pod of replica `replica` of the newest group, or of its first running replica; nothing if
// there is none, or the job has ended. `job`: the AdaptDLJob. Throws Error if the cluster is
// unreachable or refuses.
std::optional<RunningPod> running_pod(KubernetesConnection& cluster, const Json& job,
                                      std::optional<int64_t> replica = std::nullopt);

// Only the choice, among pods of any owner. Pure.
std::optional<RunningPod> choose_running_pod(const std::vector<Json>& pods, const std::string& uid,
                                             std::optional<int64_t> replica);

}  // namespace adaptdl::client
