#pragma once

// The cluster as the scheduler sees it (core/sched/cluster.h), from what the informers hold.
//
// Where a pod may go, Kubernetes decides by more than room: taints, node selectors and required
// node affinity. They are told to policies as conditions among the resources:
//   without:KEY=VALUE:EFFECT  nodes lack the taint; asked for by jobs that do not tolerate it
//   with:LABEL=VALUE          nodes have the label; asked for by jobs whose pods select it
//   affinity:TEXT             nodes are as the pods' affinity demands
//   refused:NODE,...          all others; asked for by jobs whose pods these did not take lately,
//                             unless there is no other: what only the scheduler or the kubelet
//                             knows, such as the zone of a volume, must not stop a job for ever
// Only those that some node or job is concerned with are there.

#include <map>
#include <set>
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
  bool movable = false;  // a replica of a job of ours, or a placeholder: its room is ours to give
  Resources request;
};

struct SchedulerView {
  std::vector<ClusterNode> nodes;  // that may be given replicas
  std::vector<ClusterJob> jobs;    // those to be scheduled, named NAMESPACE/NAME, by submission
};

// By job, NAMESPACE/NAME: nodes that did not take its pods lately.
using NodeRefusals = std::map<std::string, std::set<std::string>>;

// A job takes what its pods, as `settings` has them made, would ask for and tolerate. `wall_s`:
// now, since 1970; `now_s`: the same moment on the cluster's clock (Cluster::now_s).
SchedulerView scheduler_view(const std::vector<NodeFacts>& nodes, const std::vector<PodUse>& pods,
                             const std::vector<JobObject>& jobs, const PodSettings& settings,
                             double wall_s, double now_s, const NodeRefusals& refusals = {});

}  // namespace adaptdl::kubernetes
