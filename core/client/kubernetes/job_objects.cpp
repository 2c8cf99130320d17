#include "core/client/kubernetes/job_objects.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/client/exit_codes.h"
#include "core/client/known_clusters.h"
#include "core/client/kubernetes/view.h"
#include "core/cluster/kubernetes/trim.h"

namespace adaptdl::client {
namespace {

constexpr int kNames = 2000;  // names searched for a suggestion

}  // namespace

kube::Resource job_collection(const KubernetesConnection& cluster, const JobScope& scope) {
  return scope.all_namespaces ? kAdaptDLJobs : cluster.jobs();
}

std::vector<Json> list_job_objects(KubernetesConnection& cluster, const JobScope& scope) {
  kube::ObjectList all = cluster.reach([&] {
    return cluster.client().list(job_collection(cluster, scope),
                                 {.labels = scope.selector, .trim = kubernetes::trim_job});
  });
  remember_cluster(cluster.client().config());
  return std::move(all.items);
}

std::vector<JobView> views_of(const std::vector<Json>& objects) {
  std::vector<JobView> result;
  for (const Json& object : objects) result.push_back(kubernetes_view(object));
  std::sort(result.begin(), result.end(), [](const JobView& a, const JobView& b) {
    return std::tie(a.submitted_s, a.name) < std::tie(b.submitted_s, b.name);
  });
  return result;
}

std::vector<std::string> job_names(KubernetesConnection& cluster, const std::string& prefix,
                                   int most) {
  std::vector<JobView> all = views_of(list_job_objects(cluster));
  std::vector<std::string> names;
  for (auto job = all.rbegin(); job != all.rend() && static_cast<int>(names.size()) < most; ++job) {
    if (job->name.starts_with(prefix)) names.push_back(std::move(job->name));
  }
  return names;
}

Json find_job_object(KubernetesConnection& cluster, const std::string& name) {
  auto found = cluster.reach([&] { return cluster.client().find(cluster.jobs(name)); });
  if (found) return std::move(*found);
  const std::vector<std::string> known =
      job_names(cluster, "", kNames);  // throws if the cluster does not know the kind
  throw Error(
      fmt::format("job {} not found in namespace {}.{}", name, cluster.name_space(),
                  did_you_mean(name, std::vector<std::string_view>(known.begin(), known.end()))),
      kJobMissing);
}

}  // namespace adaptdl::client
