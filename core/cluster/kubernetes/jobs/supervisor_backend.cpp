#include "core/cluster/kubernetes/jobs/supervisor_backend.h"

#include <map>

#include "core/base/clock.h"
#include "core/cluster/kubernetes/jobs/job_keys.h"

namespace adaptdl::kubernetes {

KubernetesSupervisorBackend::KubernetesSupervisorBackend(const ClusterCache& cache, std::string key,
                                                         TakeHints take_hints,
                                                         TakeLeader take_leader)
    : cache_(cache),
      key_(std::move(key)),
      take_hints_(std::move(take_hints)),
      take_leader_(std::move(take_leader)) {}

std::optional<SupervisedJob> KubernetesSupervisorBackend::find(const std::string& job_namespace,
                                                               const std::string& name) {
  const auto known = cache_.job(job_namespace + "/" + name);
  if (!known) return std::nullopt;
  return SupervisedJob{job_keys(key_, known->job).token};
}

// The others wait only for the launcher's address, which comes first.
std::optional<std::vector<std::string>> KubernetesSupervisorBackend::live_addresses(
    const JobObject& job) const {
  std::map<int, std::string> by_rank;
  for (const PodFacts& pod : cache_.pods(job)) {
    if (pod.group == job.status.group && pod.end == PodEnd::none && !pod.ip.empty()) {
      by_rank[pod.rank] = pod.ip;
    }
  }
  const auto launcher = by_rank.find(job.status.launcher());
  if (launcher == by_rank.end()) return std::nullopt;
  std::vector<std::string> addresses{launcher->second};
  for (const auto& [rank, ip] : by_rank) {
    if (rank != launcher->first) addresses.push_back(ip);
  }
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

// The leader repeats it, so that it is not written again.
void KubernetesSupervisorBackend::leads(const std::string& job_namespace, const std::string& name,
                                        int64_t group, int rank) {
  const auto known = cache_.job(job_namespace + "/" + name);
  if (!known || !known->job.live || known->job.status.group != group) return;
  const GroupLeader leader{group, rank};
  if (known->job.status.leads != leader) take_leader_(known->job.id(), leader);
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
