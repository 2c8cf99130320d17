#pragma once

// An installation in a cluster: what exists, what must change, and the changes. A cluster has only
// one installation, since the cluster-wide objects of several would be the same.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/formats/json.h"
#include "core/kube/client.h"

namespace adaptdl::kubernetes {

inline constexpr const char* kInstaller = "adaptdl-install";  // field manager

// The namespace of the installation in this cluster, if there is one. Throws Error if another
// program installed AdaptDL, such as its Helm chart.
std::optional<std::string> installed_in(kube::Client& client);

// As installed_in(), but also if the installation was removed in part, or all but the definition of
// jobs.
std::optional<std::string> remains_in(kube::Client& client);

// The values that the installation was given (manifests()); an empty object if they are lost.
Json installed_values(kube::Client& client, const std::string& name_space);

struct ObjectChange {
  enum class What { create, change, remove };
  What what = What::create;
  Json object;                     // to apply, or to remove
  std::vector<std::string> lines;  // of a change: what differs
};

// The changes after which the cluster has these objects, and no others of the installation of
// `name_space`; changes nothing itself. Leaves out objects that need no change. If namespace or
// definition of jobs existed before the installation, the namespace is not changed, and the
// definition does not become the installation's. The registry's volume belongs to no installation:
// an existing one is used, and none is ever removed. Throws Error if the cluster does not know a
// wanted kind of Prometheus's operator.
std::vector<ObjectChange> plan_installation(kube::Client& client, std::vector<Json> wanted,
                                            const std::string& name_space);

// Carries out one change.
void carry_out(kube::Client& client, const ObjectChange& change);

// Waits until all operators are ready; calls `news` with what they wait for, each time that it
// changes. Throws Error with exit code 124 and the last reason after `patience`.
void wait_until_ready(kube::Client& client, const std::string& name_space, Seconds patience,
                      const std::function<void(const std::string&)>& news);

// The number of jobs in the cluster, ended or not; also 0 if it does not know the kind.
size_t count_jobs(kube::Client& client);

// Removes all of the installation: first what validates jobs, then the operators, then the rest and
// the operators' placeholder pods. Waits for the end of each, for `patience` in all. With
// `keep_jobs` it keeps the jobs, their definition, and the namespace with the Secrets of their
// tokens and of the supervisor's certificate. Without it, it keeps a namespace with jobs, claims,
// workloads, Services, Secrets or ConfigMaps of others, and throws Error before it removes the
// definition if there are jobs by then. Calls `news` for each object. Skips what is already
// removed, so that it can be called again.
void remove_installation(kube::Client& client, const std::string& name_space, bool keep_jobs,
                         Seconds patience, const std::function<void(const std::string&)>& news);

}  // namespace adaptdl::kubernetes
