#pragma once

// Finish-time fairness of a job (Themis, NSDI'20; Pollux, section 5.3.2):
//   rho = its JCT / the JCT that it would have alone on 1/J of the cluster,
// where J is the mean number of jobs in the cluster while the job was there. Below 1 the job
// benefits from sharing. If there are several kinds of accelerators, the time alone is the mean of
// those on 1/J of the cluster's GPUs, all of one kind, weighted by the GPUs of each kind (Sia,
// SOSP'23, section 5).

#include <map>
#include <string>
#include <vector>

#include "core/sched/cluster.h"
#include "core/sim/profiles/profile.h"
#include "core/sim/simulation.h"

namespace adaptdl {

// Seconds that a job of this profile takes alone on `gpus` > 0 GPUs of that kind, on the fewest
// nodes of `gpus_per_node` each, with an adaptive batch. With less than one GPU, the time on one
// GPU divided by `gpus`. Includes `rescale_s` once. Requires: profile.runs_on(kind).
double time_alone(const Profile& profile, const std::string& kind, double gpus, int gpus_per_node,
                  double rescale_s);

// Fills in JobResult::fairness of every completed job. `rescale_s` < 0: by the profiles. O(jobs^2 +
// simulated time).
void add_fairness(std::vector<JobResult>& jobs, const std::map<std::string, Profile>& profiles,
                  const std::vector<ClusterNode>& nodes, double rescale_s);

}  // namespace adaptdl
