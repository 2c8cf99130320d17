#pragma once

// The AdaptDLJobs of a Kubernetes cluster, as it stores them.

#include <string>
#include <vector>

#include "core/client/job_query.h"
#include "core/client/kubernetes/connection.h"
#include "core/formats/json.h"

namespace adaptdl::client {

// What no row shows, and is most of a job's size.
void trim_job(Json& object);

// Where the jobs of a scope are.
kube::Resource job_collection(const KubernetesConnection& cluster, const JobScope& scope);

// Without what trim_job() takes away.
std::vector<Json> list_job_objects(KubernetesConnection& cluster, const JobScope& scope = {});

// Their views, by submission. Throws Error for what has no name.
std::vector<JobView> views_of(const std::vector<Json>& objects);

// The newest first, of the connection's namespace.
std::vector<std::string> job_names(KubernetesConnection& cluster, const std::string& prefix,
                                   int most);

// Throws Error, with what was probably meant, if there is no such job.
Json find_job_object(KubernetesConnection& cluster, const std::string& name);

}  // namespace adaptdl::client
