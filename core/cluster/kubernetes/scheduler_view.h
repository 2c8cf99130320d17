#pragma once

// The cluster as the scheduler sees it (core/sched/cluster.h), made from the informers' data.
//
// Room is not enough for Kubernetes to place a pod: taints, node selectors and required node
// affinity count, too. Policies get them as conditions among the resources:
//   without:KEY=VALUE:EFFECT  nodes without the taint have it; jobs that do not tolerate the taint
//                             request it
//   with:LABEL=VALUE          nodes with the label have it; jobs whose pods select it request it
//   affinity:TEXT             nodes that meet the pods' affinity have it
//   accelerators:NAMES        nodes with accelerators among them have it; jobs that name them
//                             request it
//   refused:JOB:NODE,...      all other nodes have plenty of it, these as much as they took of the
//                             job's pods, of which they refused others lately; it requests it,
//                             unless there is no other node: reasons that only the scheduler or
//                             the kubelet knows, such as the zone of a volume, must not stop a job
//                             for ever
// Only conditions that concern some node or job exist.
//
// While a device plugin restarts, the kubelet reports a node without its devices; the pods that
// have some go on. A running job with replicas on a node that has none of a resource which they
// need keeps it, and stays as it is: for the policies it is not preemptible for this time.
//
// A job that is not preemptible goes on while its pods do, also on nodes that are cordoned or do
// not respond: such a node has what these jobs request, and nothing for others.

#include <map>
#include <string>
#include <vector>

#include "core/cluster/kubernetes/jobs/job_object.h"
#include "core/cluster/kubernetes/jobs/pod_builder.h"
#include "core/cluster/kubernetes/nodes/capacity.h"
#include "core/sched/cluster.h"

namespace adaptdl::kubernetes {

// A pod that takes room on a node: bound to it, and not finished.
struct PodUse {
  std::string node;
  bool movable =
      false;  // our job's replica, or a placeholder: the scheduler may give away its room
  Resources request;
};

struct SchedulerView {
  std::vector<ClusterNode> nodes;  // nodes that may get replicas
  std::vector<ClusterJob> jobs;    // jobs to schedule, named NAMESPACE/NAME, by submission
};

// By job, NAMESPACE/NAME, and node that refused its pods lately: how many it took.
using NodeRefusals = std::map<std::string, std::map<std::string, int>>;
// By job: the replicas that a quota admitted lately; 0: it waits without nodes.
using ReplicaBounds = std::map<std::string, int>;

// What a second of one of the job's replicas adds to its attained service: the accelerators that
// its template requests, > 0, or 1 if it requests none. Of several resources of accelerators the
// least amount counts: the others are of their memory or cores.
double service_rate(const JobObject& job);

// A job requests and tolerates what its pods, made with `settings`, would. `wall_s`: now, since
// 1970; `now_s`: the same moment on the cluster's clock (Cluster::now_s).
SchedulerView scheduler_view(const std::vector<NodeFacts>& nodes, const std::vector<PodUse>& pods,
                             const std::vector<JobObject>& jobs, const PodSettings& settings,
                             double wall_s, double now_s, const NodeRefusals& refusals = {},
                             const ReplicaBounds& bounds = {});

}  // namespace adaptdl::kubernetes
