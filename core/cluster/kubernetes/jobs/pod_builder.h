#pragma once

// The pods of a job, as AdaptDL's controller makes them: what an unmodified AdaptDL image finds
// around it (labels, annotations, environment, /dev/shm), from the job's template.

#include <functional>
#include <string>
#include <vector>

#include "core/cluster/kubernetes/jobs/job_object.h"
#include "core/cluster/kubernetes/jobs/live_group.h"
#include "core/formats/json.h"

namespace adaptdl::kubernetes {

// ADAPTDL_MASTER_PORT is one of them: that of the group's number, or, of a pod in its node's
// network (hostNetwork), one that depends on the job, too.
inline constexpr int kMasterPort = 47000, kMasterPorts = 1000;

struct PodSettings {
  std::string supervisor_url;         // http://HOST:PORT, without the job's path prefix
  std::string scheduler_version;      // ADAPTDL_SCHED_VERSION: what AdaptDL 0.x clients accept
  Json default_resources;             // of the first container, where it says nothing; null: none
  Json patch_pods, patch_containers;  // JSON patches (RFC 6902) of the installation; null: none
  // Of a job, see job_token(); none: the pods are only measured, never made.
  std::function<std::string(const JobObject&)> token = {};
};

// A pod of the group that `status` tells of (group, allocation), which need not be the job's yet.
// `hostname`: the node's label kubernetes.io/hostname. Throws Error if the template has no
// container, or a patch does not fit.
Json make_pod(const JobObject& job, const JobStatus& status, const PodPlace& place,
              const std::string& hostname, const PodSettings& settings);

std::string pod_name(const JobObject& job, int64_t group, int rank);

// The Secret that holds a job's token, and its key. Its name has a digest of the token, so that one
// that is there already is the right one: another job's of this name, or one that was made under
// another installation's key, has another name.
std::string token_secret(const JobObject& job, const std::string& token);
inline constexpr const char* kTokenKey = "token";
Json make_token_secret(const JobObject& job, const std::string& token);

// Lets a pod (its `spec`) onto nodes that are kept for AdaptDL, as those of jobs are let.
void add_toleration(Json& spec);

// As metadata.ownerReferences of what belongs to a job: removed with it.
Json owner_reference(const JobObject& job, bool controller = true);

}  // namespace adaptdl::kubernetes
