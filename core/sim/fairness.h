#pragma once

// Was it worth sharing? Finish-time fairness of a job (Themis, NSDI'20; Pollux, section 5.3.2):
//   rho = its JCT / the JCT that it would have alone on 1/J of the cluster,
// J being the mean number of jobs in the cluster while it was there. Below 1: sharing did it good.

#include <map>
#include <string>
#include <vector>

#include "core/sim/profiles/profile.h"
#include "core/sim/simulation.h"

namespace adaptdl {

// Seconds that a job of this profile takes alone on `gpus` > 0 GPUs, on as few nodes of
// `gpus_per_node` as hold them, its batch adapted; with less than one GPU, as many times longer as
// on one. `rescale_s` is spent once.
double time_alone(const Profile& profile, double gpus, int gpus_per_node, double rescale_s);

// Fills in JobResult::fairness of every completed job. O(jobs^2 + simulated time).
void add_fairness(std::vector<JobResult>& jobs, const std::map<std::string, Profile>& profiles,
                  int total_gpus, int gpus_per_node, double rescale_s);

}  // namespace adaptdl
