#pragma once

// The pods of a job on Kubernetes, to run something in one.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/client/kubernetes/connection.h"
#include "core/formats/json.h"

namespace adaptdl::client {

struct RunningPod {
  kube::Resource pod;
  std::string container;  // of the program: the first one
};

// Of the newest group: replica `replica`, or the first that runs; nothing if there is none. `job`:
// the AdaptDLJob. Throws Error if the cluster cannot be asked.
std::optional<RunningPod> running_pod(KubernetesConnection& cluster, const Json& job,
                                      std::optional<int64_t> replica = std::nullopt);

// The choice alone, among pods of any owner. Pure.
std::optional<RunningPod> choose_running_pod(const std::vector<Json>& pods, const std::string& uid,
                                             std::optional<int64_t> replica);

}  // namespace adaptdl::client
