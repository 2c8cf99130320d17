#include "core/client/kubernetes/pods.h"

#include <tuple>

#include "core/cluster/kubernetes/jobs/pod_object.h"
#include "core/formats/json_fields.h"
#include "core/job/phase.h"
#include "core/kube/informer.h"

namespace adaptdl::client {
namespace {

bool runs(const Json& pod) {
  return text_at_pointer(pod, "/status/phase") == "Running";
}

}  // namespace

std::optional<RunningPod> choose_running_pod(const std::vector<Json>& pods, const std::string& uid,
                                             std::optional<int64_t> replica) {
  const Json* best = nullptr;
  kubernetes::PodFacts chosen;
  for (const Json& pod : pods) {
    const kubernetes::PodFacts facts = kubernetes::read_pod(pod);
    if (facts.owner_uid != uid || facts.rank < 0 || facts.deleting || !runs(pod)) continue;
    if (replica && facts.rank != *replica) continue;
    if (best != nullptr && std::tuple(-facts.group, facts.rank, facts.name) >
                               std::tuple(-chosen.group, chosen.rank, chosen.name)) {
      continue;
    }
    best = &pod;
    chosen = facts;
  }
  if (best == nullptr) return std::nullopt;
  const std::string space = kube::metadata_text(*best, "namespace");
  return RunningPod{kube::kPods.in(space, chosen.name),
                    text_at_pointer(*best, "/spec/containers/0/name")};
}

std::optional<RunningPod> running_pod(KubernetesConnection& cluster, const Json& job,
                                      std::optional<int64_t> replica) {
  const std::string phase = text_at_pointer(job, "/status/phase");
  for (const JobPhase end : {JobPhase::succeeded, JobPhase::failed}) {
    if (phase == phase_name(end)) return std::nullopt;  // its pods are about to go
  }
  const std::string name = kube::metadata_text(job, "name");
  const std::string labels = fmt::format("{}={}", kubernetes::kLabelJob, name);
  const std::vector<Json> pods = cluster.reach(
      [&] { return cluster.client().list(cluster.pods(), {.labels = labels}).items; });
  return choose_running_pod(pods, kube::metadata_text(job, "uid"), replica);
}

}  // namespace adaptdl::client
