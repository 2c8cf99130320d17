#pragma once

// Differences between an installation's objects and those in the cluster, and whether its operators
// run. Pure.

#include <string>
#include <vector>

#include "core/formats/json.h"

namespace adaptdl::kubernetes {

// "spec.replicas: 1 -> 2": a line for each different value, ordered by path. Ignores what the API
// server manages itself (status, versions, times, managers of fields).
std::vector<std::string> changed_fields(const Json& before, const Json& after);

// Why a Deployment is not ready, in a sentence: what its youngest waiting pod waits for (image,
// node, crash), or how many pods are ready. "" once it is ready. `pods`: all of its pods.
std::string why_not_ready(const Json& deployment, const std::vector<Json>& pods);

}  // namespace adaptdl::kubernetes
