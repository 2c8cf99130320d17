#pragma once

// Makes a job's pods from its template, as AdaptDL's controller does, with all that an unmodified
// AdaptDL image expects (labels, annotations, environment, /dev/shm).

#include <functional>
#include <string>
#include <vector>

#include "core/cluster/kubernetes/jobs/job_keys.h"
#include "core/cluster/kubernetes/jobs/job_object.h"
#include "core/cluster/kubernetes/jobs/live_group.h"
#include "core/formats/json.h"

namespace adaptdl::kubernetes {

// The range of ADAPTDL_MASTER_PORT: the port depends on the group's number and, for a pod in its
// node's network (hostNetwork), also on the job.
inline constexpr int kMasterPort = 47000, kMasterPorts = 1000;

// MASTER_PORT, torch.distributed's, is so much larger: a program may use both.
inline constexpr int kTorchPortOffset = kMasterPorts;

struct PodSettings {
  std::string supervisor_url;              // http://HOST:PORT, without the job's path prefix
  std::string secure_supervisor_url = {};  // https://HOST:PORT; "": there is none
  // PEM: whom its clients trust. Not empty if secure_supervisor_url is set.
  std::function<std::string()> supervisor_authorities = {};
  std::string scheduler_version;  // ADAPTDL_SCHED_VERSION: what AdaptDL 0.x clients accept
  Json default_resources;         // if the first container sets no resources; null: none
  bool load_pickles = false;     // torch.load reads pickles in all jobs whose template says nothing
  bool network_policies = true;  // a job's pods can be reached by each other alone
  Json patch_pods, patch_containers;  // JSON patches (RFC 6902) of the installation; null: none
  // job_keys(); empty: pods are only measured, never created.
  std::function<JobKeys(const JobObject&)> keys = {};
};

// What a pod's spec says of its node.
struct PodNode {
  std::string hostname;     // its label kubernetes.io/hostname
  std::string accelerator;  // kind of its GPUs; "": none is known
};

// A pod of the group of `status` (group, allocation), which may not be written to the job yet.
// Throws Error if the template has no container, or a patch cannot be applied.
Json make_pod(const JobObject& job, const JobStatus& status, const PodPlace& place,
              const PodNode& node, const PodSettings& settings);

// The headless Service, in a job's namespace, that gives each of its pods a name in the cluster's
// DNS, also before it is ready: that of rank 0 is MASTER_ADDR. Needed by several replicas of a job
// that does not rescale live; the cluster deletes it with the job.
bool needs_service(const JobObject& job, const JobStatus& status);
Json service_of(const JobObject& job);

// The NetworkPolicy by which only pods of the same job reach its pods. Policies add up, so a job
// that serves others needs one of its own that admits them. The cluster deletes it with the job.
Json network_policy_of(const JobObject& job);

std::string pod_name(const JobObject& job, int64_t group, int rank);

// The Secret with a job's keys. The name contains a digest of them, so that an existing Secret with
// this name is the right one: another job of the same name, or another installation's key, gives
// another name.
Json make_secret(const JobObject& job, const JobKeys& keys);

// Lets a pod (its `spec`) run on nodes that are reserved for AdaptDL, as jobs' pods may.
void add_toleration(Json& spec);

// The metadata.ownerReferences of an object that the cluster deletes with the job.
Json owner_reference(const JobObject& job, bool controller = true);

}  // namespace adaptdl::kubernetes
