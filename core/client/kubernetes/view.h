#pragma once

// Objects of a Kubernetes cluster as commands show them. Pure.

#include <optional>
#include <string>
#include <vector>

#include "core/client/job_view.h"
#include "core/formats/json.h"

namespace adaptdl::client {

// An AdaptDLJob. What other programs wrote wrongly counts as absent. Throws Error for what has no
// name.
JobView kubernetes_view(const Json& object);

// The table of its conditions.
JobDetails::Table conditions_table(const Json& object, double now_s);
// That of its pods, by group and rank.
JobDetails::Table pods_table(const std::vector<Json>& pods);

// A core/v1 Event of a job, or of a job's pod; nothing for others'. `id` is its time in
// microseconds.
std::optional<JobEvent> kubernetes_event(const Json& object);

// The job whose pod it is: JOB-UID-GROUP-RANK; "" for another name.
std::string job_of_pod(const std::string& pod);

}  // namespace adaptdl::client
