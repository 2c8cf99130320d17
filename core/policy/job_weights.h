#pragma once

// Weights of jobs for a short mean completion time: jobs that will probably end soon get large
// weights, and no job gets a weight near zero.

#include <optional>
#include <vector>

#include "core/policy/snapshot.h"

namespace adaptdl {

struct WeightOptions {
  // Of m jobs in the order of their remaining time, longest first, the i-th weighs (i/m)^c -
  // ((i-1)/m)^c, times m, with c = 1 / (1 - p) if its goodput grows as replicas^p. Where p is the
  // same for all jobs and no more jobs arrive, shares in this proportion give the least mean
  // completion time: heSRPT (Berg, Vesilo, Harchol-Balter 2020, theorem 7). The better jobs scale,
  // the more it pays to finish one after another. This is the maximum of c; 1: equal weights.
  double preference = 6;
  // A job that does not report its remaining work, after s GPU seconds, weighs s^-service_exponent:
  // the longer a job has run, the longer it will probably still run (as under a heavy-tailed
  // distribution of lengths, where least attained service is near the best order). If jobs like it
  // have ended, JobSnapshot::length_rank takes the place of s. Twice the time of a start is added
  // to it, so that all jobs that have hardly run weigh alike.
  double service_exponent = 0.5;
  double least = 0.2;          // smallest weight; the mean is about 1
  double rescale_cost_s = 30;  // of a job that has not measured it, if no other job has
};

// What a job has to go, in samples of its initial batch. Nothing for a job that does not tell.
std::optional<double> remaining_samples(const JobHints& hints);

// By job, > 0. Jobs with remaining_progress are ranked by the time that they need on a few GPUs.
// Among them those that have not trained yet, by their length_rank or, without one, as if five
// times their start were left: a short look tells their length. The others weigh by the service
// that they have had. Of equals, such as new jobs, the oldest counts most, then the first by name.
// Each group's mean is about 1. O(jobs log jobs).
std::vector<double> job_weights(const Snapshot& snapshot, const WeightOptions& options);

}  // namespace adaptdl
