#pragma once

// An installation in a cluster: what is there, what is to change, and doing it. Of several
// installations in one cluster their cluster-wide objects would be the same, so there is one.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/formats/json.h"
#include "core/kube/client.h"

namespace adaptdl::kubernetes {

inline constexpr const char* kInstaller = "adaptdl-install";  // field manager

// The namespace of the installation in this cluster, if there is one. Throws Error if the cluster
// has one that this program did not make, such as AdaptDL's Helm chart.
std::optional<std::string> installed_in(kube::Client& client);

// As installed_in(), but also of one that was removed in part, or but for the definition of jobs.
std::optional<std::string> remains_in(kube::Client& client);

// What it was given (manifests()); an empty object if that is lost.
Json installed_values(kube::Client& client, const std::string& name_space);

struct ObjectChange {
  enum class What { create, change, remove };
  What what = What::create;
  Json object;                     // to apply, or to remove
  std::vector<std::string> lines;  // of a change: what differs
};

// What must happen so that the cluster has these objects, and no others of the installation of
// `name_space`; nothing is done yet. What is as it should be is left out. Of a namespace and a
// definition of jobs that were there before the installation, the namespace is left alone, and the
// definition stays others'. The registry's volume is nobody's: one that is there is taken, and none
// is ever removed. Throws Error if the cluster does not know a kind of Prometheus's operator that
// is wanted.
std::vector<ObjectChange> plan_installation(kube::Client& client, std::vector<Json> wanted,
                                            const std::string& name_space);

// Does one of them.
void carry_out(kube::Client& client, const ObjectChange& change);

// Waits until all operators run as they should; `news` is told what they wait for, each time that
// it changes. Throws Error with exit code 124 and the last reason after `patience`.
void wait_until_ready(kube::Client& client, const std::string& name_space, Seconds patience,
                      const std::function<void(const std::string&)>& news);

// Jobs that the cluster has, ended or not: 0 also if it knows no such kind.
size_t count_jobs(kube::Client& client);

// Removes all that belongs to it, first what would look at jobs, then the operators, and waits for
// the end of each, `patience` in all; the operators' placeholder pods go as well. With `keep_jobs`
// the definition of jobs stays, and so do they, and the namespace with the key of their tokens.
// Else a namespace stays that has jobs, claims, workloads, Services, Secrets or ConfigMaps of
// others in it. `news` is told of each object. What is removed already is passed over: it may be
// called again.
void remove_installation(kube::Client& client, const std::string& name_space, bool keep_jobs,
                         Seconds patience, const std::function<void(const std::string&)>& news);

}  // namespace adaptdl::kubernetes
