#pragma once

// The AdaptDLJobs of a Kubernetes cluster, as it stores them.

#include <string>
#include <vector>

#include "core/client/job_query.h"
#include "core/client/kubernetes/connection.h"
#include "core/formats/json.h"

namespace adaptdl::client {

// The collection with the jobs of a scope.
kube::Resource job_collection(const KubernetesConnection& cluster, const JobScope& scope);

// The jobs of a scope, trimmed by kubernetes::trim_job().
std::vector<Json> list_job_objects(KubernetesConnection& cluster, const JobScope& scope = {});

// Their views, ordered by submission. Throws Error for an object without a name.
std::vector<JobView> views_of(const std::vector<Json>& objects);

// Newest first, in the connection's namespace.
std::vector<std::string> job_names(KubernetesConnection& cluster, const std::string& prefix,
                                   int most);

// Throws Error with a suggestion if the job is not found.
Json find_job_object(KubernetesConnection& cluster, const std::string& name);

}  // namespace adaptdl::client
