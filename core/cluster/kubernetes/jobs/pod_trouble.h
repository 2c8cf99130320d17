#pragma once

// Why a pod does not start where its status keeps silent: a volume that cannot be mounted or a
// sandbox that cannot be made is told in events alone, while the container is "being created".

#include "core/cluster/kubernetes/jobs/pod_object.h"
#include "core/formats/json.h"

namespace adaptdl::kubernetes {

// Whether the pod's events had better be asked: it is on its node, has not started for a while, and
// nothing in its status says why. `now_s`: since 1970.
bool waits_silently(const PodFacts& pod, double now_s);

// Takes reason and message from the newest warning among `events` (v1 Events of the pod, which is
// on its node; in any order); nothing, if there is none that still holds: what it waited for before
// it pulled an image is there. Never throws: events are anybody's to write.
void read_pod_events(const std::vector<Json>& events, PodFacts& pod);

}  // namespace adaptdl::kubernetes
