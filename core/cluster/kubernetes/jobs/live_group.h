#pragma once

// A job whose programs rescale live (`spec.liveRescale`): its group continues while pods come and
// go. One pod, on the first node of the allocation, runs the launcher, which the others join: at
// first that of rank 0. Deleting another pod makes its replicas leave. When the launcher's pod is
// lost, another one leads (reconcile.cpp); where none can, the group is over. Pure.

#include <optional>
#include <string>
#include <vector>

#include "core/cluster/kubernetes/jobs/job_object.h"
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
  // Those that have led stay when they have ended: their logs tell what the group did.
  std::vector<const PodFacts*> remove;
  // Pods to create on nodes that lack one, with ranks that no pod of the group has.
  std::vector<PodPlace> create;
  // The latest failure of a pod that was not removed, since 1970: new pods wait for a while then.
  double failed_s = 0;
};

// s in which another replica must tell that it leads in place of a lost launcher. Replicas agree on
// one in a second, but for 10 s may wait for the lock of the checkpoint folder.
inline constexpr double kSuccession = 60;

// Whether the launcher of a running group is lost, which is killed, told to stop or deleted, and
// other pods may go on with one of them as the launcher. A launcher that ends otherwise has ended
// the run. `unled_s`: since the loss was seen; 0 if it was not before.
bool may_be_led_again(const std::vector<const PodFacts*>& group, const JobStatus& status,
                      double unled_s);

// `group`: all pods of the present group, to be as `status` wishes: a node for each replica. The
// pod that leads lives, or is not there.
LiveGroup fit_live_group(const std::vector<const PodFacts*>& group, const JobStatus& status);

}  // namespace adaptdl::kubernetes
