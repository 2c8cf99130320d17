#pragma once

// Finds why a pod does not start when its status does not say it: only events report a volume that
// cannot be mounted or a sandbox that cannot be created, while the container is "being created".

#include "core/cluster/kubernetes/jobs/pod_object.h"
#include "core/formats/json.h"

namespace adaptdl::kubernetes {

// Whether to read the pod's events: it is on its node, has not started for a while, and its status
// does not say why. `age_s`: since it was created.
bool waits_silently(const PodFacts& pod, double age_s);

// Takes reason and message from the newest warning among `events` (v1 Events of the pod, which is
// on its node; in any order). Ignores warnings from before it pulled an image, since that problem
// is over. Never throws: anybody may write events.
void read_pod_events(const std::vector<Json>& events, PodFacts& pod);

}  // namespace adaptdl::kubernetes
