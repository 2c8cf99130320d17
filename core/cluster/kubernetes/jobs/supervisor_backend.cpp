#include "core/cluster/kubernetes/jobs/supervisor_backend.h"

#include <map>

#include "core/base/clock.h"
#include "core/cluster/kubernetes/jobs/job_keys.h"

namespace adaptdl::kubernetes {

KubernetesSupervisorBackend::KubernetesSupervisorBackend(const ClusterCache& cache, std::string key,
                                                         TakeHints take_hints)
    : cache_(cache), key_(std::move(key)), take_hints_(std::move(take_hints)) {}

std::optional<SupervisedJob> KubernetesSupervisorBackend::find(const std::string& job_namespace,
                                                               const std::string& name) {
  const auto known = cache_.job(job_namespace + "/" + name);
  if (!known) return std::nullopt;
  return SupervisedJob{job_keys(key_, known->job).token};
}

// The others wait only for the launcher's address.
std::optional<std::vector<std::string>> KubernetesSupervisorBackend::live_addresses(
    const JobObject& job) const {
  std::map<int, std::string> by_rank;
  for (const PodFacts& pod : cache_.pods(job)) {
    if (pod.group == job.status.group && pod.end == PodEnd::none && !pod.ip.empty()) {
      by_rank[pod.rank] = pod.ip;
    }
  }
  if (!by_rank.contains(0)) return std::nullopt;
  std::vector<std::string> addresses;
  for (const auto& [rank, ip] : by_rank) addresses.push_back(ip);
  return addresses;
}

std::optional<std::vector<std::string>> KubernetesSupervisorBackend::addresses(
    const std::string& job_namespace, const std::string& name, int64_t group) {
  const auto known = cache_.job(job_namespace + "/" + name);
  if (!known || known->job.status.group != group) return std::nullopt;
  if (known->job.live) return live_addresses(known->job);
  std::vector<std::string> addresses(known->job.status.allocation.size());
  for (const PodFacts& pod : cache_.pods(known->job)) {
    if (pod.group != group || pod.rank < 0 || pod.rank >= static_cast<int>(addresses.size())) {
      continue;
    }
    addresses[static_cast<size_t>(pod.rank)] = pod.ip;
  }
  for (const std::string& address : addresses) {
    if (address.empty()) return std::nullopt;
  }
  if (addresses.empty()) return std::nullopt;
  return addresses;
}

// The pods that sent them may still run where the job's allocation no longer is.
void KubernetesSupervisorBackend::hints(const std::string& job_namespace, const std::string& name,
                                        const SchedulingHints& hints) {
  const auto known = cache_.job(job_namespace + "/" + name);
  if (!known) return;
  std::vector<std::string> nodes;
  for (const PodFacts& pod : cache_.pods(known->job)) {
    if (pod.group == known->job.status.group && pod.end == PodEnd::none) nodes.push_back(pod.node);
  }
  SchedulingHints before;
  try {
    std::vector<std::string> ignored;
    before = hints_from_json(known->job.status.train, known->job.id(), ignored);
  } catch (const Error&) {  // there are none, or another program wrote them
  }
  SchedulingHints told = with_kinds(hints, cache_.accelerator_of(nodes), before);
  const auto& started_s = known->job.status.group_started_s;
  if (!told.rescale_cost_s && !known->job.live && started_s) {
    told.rescale_cost_s = estimated_restart_cost(wall_now_s() - *started_s, before.rescale_cost_s);
  }
  take_hints_(known->job.id(), to_json(told));
}

}  // namespace adaptdl::kubernetes
