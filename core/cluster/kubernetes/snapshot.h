#pragma once

// The cluster as the scheduler sees it (core/cluster/cluster.h), from what the informers hold.
//
// Where a pod may go, Kubernetes decides by more than room: taints and node selectors. They are
// told to policies as resources: "without:KEY=VALUE:EFFECT" is plenty on nodes that lack the taint
// and asked for by jobs that do not tolerate it, "with:LABEL=VALUE" is plenty on nodes that have
// the label and asked for by jobs whose template selects it. Only those that some node or job is
// concerned with are there.

#include <string>
#include <vector>

#include "core/cluster/cluster.h"
#include "core/cluster/kubernetes/capacity.h"
#include "core/cluster/kubernetes/job_object.h"
#include "core/cluster/kubernetes/pod_builder.h"

namespace adaptdl::kubernetes {

// A pod that takes room on a node: bound to it, and not finished.
struct PodUse {
  std::string node;
  bool movable = false;  // a replica of a job of ours, or a placeholder: its room is ours to give
  Resources request;
};

struct KubernetesSnapshot {
  std::vector<ClusterNode> nodes;  // that may be given replicas
  std::vector<ClusterJob> jobs;    // those to be scheduled, named NAMESPACE/NAME, by submission
};

// A job takes what its pods, as `settings` has them made, would ask for and tolerate. `wall_s`:
// now, since 1970; `now_s`: the same moment on the cluster's clock (Cluster::now_s).
KubernetesSnapshot take_kubernetes_snapshot(const std::vector<NodeFacts>& nodes,
                                            const std::vector<PodUse>& pods,
                                            const std::vector<JobObject>& jobs,
                                            const PodSettings& settings, double wall_s,
                                            double now_s);

}  // namespace adaptdl::kubernetes
