#pragma once

// What an installation's objects differ in from those of the cluster, and whether its operators
// run. Pure.

#include <string>
#include <vector>

#include "core/formats/json.h"

namespace adaptdl::kubernetes {

// "spec.replicas: 1 -> 2", a line for each value that differs; without what the API server keeps
// account of by itself (status, versions, times, who manages which field). In order of the paths.
std::vector<std::string> changed_fields(const Json& before, const Json& after);

// Why a Deployment is not yet as it is wanted, in a sentence: what its pods wait for (image,
// node, crash), the youngest pod's first, or how many are ready. "" once it is. `pods`: all that it
// has.
std::string why_not_ready(const Json& deployment, const std::vector<Json>& pods);

}  // namespace adaptdl::kubernetes
