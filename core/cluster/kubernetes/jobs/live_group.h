#pragma once

// A job whose programs rescale live (`spec.liveRescale`): its group goes on while pods come and go.
// The pod of rank 0, on the first node of the allocation, has the launcher, which the others join;
// they are told to go by their deletion, and only its end is the group's. Pure.

#include <optional>
#include <string>
#include <vector>

#include "core/cluster/kubernetes/jobs/pod_object.h"

namespace adaptdl::kubernetes {

// A pod to be made.
struct PodPlace {
  int rank = 0;
  std::string node;

  bool operator==(const PodPlace&) const = default;
};

struct LiveGroup {
  // Why the group cannot go on, so that all have to start again; "" if it can.
  std::string over;
  // On nodes that are not the job's any more, or ended; also those that are being removed.
  std::vector<const PodFacts*> remove;
  // On nodes that lack one; ranks that no pod of the group has.
  std::vector<PodPlace> create;
  // The newest end of a pod that nobody removed, since 1970: none is made for a while then.
  double failed_s = 0;
};

// `group`: all pods of the present group; `allocation`: a node for each replica.
LiveGroup fit_live_group(const std::vector<const PodFacts*>& group,
                         const std::vector<std::string>& allocation);

}  // namespace adaptdl::kubernetes
