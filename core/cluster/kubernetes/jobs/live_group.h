#pragma once

// A job whose programs rescale live (`spec.liveRescale`): its group continues while pods come and
// go. The pod of rank 0, on the first node of the allocation, runs the launcher, which the others
// join. Deleting another pod makes its replicas leave; only the end of the launcher's pod ends the
// group. Pure.

#include <optional>
#include <string>
#include <vector>

#include "core/cluster/kubernetes/jobs/pod_object.h"

namespace adaptdl::kubernetes {

// A pod to create.
struct PodPlace {
  int rank = 0;
  std::string node;

  bool operator==(const PodPlace&) const = default;
};

struct LiveGroup {
  // Why the group cannot continue, so that all replicas must restart; "" if it can.
  std::string over;
  // Pods to remove: on nodes no longer allocated, or ended; includes those being deleted already.
  std::vector<const PodFacts*> remove;
  // Pods to create on nodes that lack one, with ranks that no pod of the group has.
  std::vector<PodPlace> create;
  // The latest failure of a pod that was not removed, since 1970: new pods wait for a while then.
  double failed_s = 0;
};

// `group`: all pods of the present group; `allocation`: a node for each replica.
LiveGroup fit_live_group(const std::vector<const PodFacts*>& group,
                         const std::vector<std::string>& allocation);

}  // namespace adaptdl::kubernetes
