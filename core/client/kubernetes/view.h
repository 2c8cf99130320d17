#pragma once

// Kubernetes resources as commands show them. Pure.

#include <optional>
#include <string>
#include <vector>

#include "core/client/job_view.h"
#include "core/formats/json.h"

namespace adaptdl::client {

// The view of an AdaptDLJob. Invalid fields, which other programs may have written, count as
// absent. Throws Error for an object without a name.
JobView kubernetes_view(const Json& object);

// The table of its conditions.
JobDetails::Table conditions_table(const Json& object, double now_s);
// The table of its pods, by group and rank.
JobDetails::Table pods_table(const std::vector<Json>& pods);

// The view of a core/v1 Event of a job or of a job's pod; nothing for other objects. `id` is its
// time in microseconds.
std::optional<JobEvent> kubernetes_event(const Json& object);

// The job of a pod named JOB-UID-GROUP-RANK; "" for another name.
std::string job_of_pod(const std::string& pod);

}  // namespace adaptdl::client
