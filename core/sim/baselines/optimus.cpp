#include "core/sim/baselines/optimus.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/sim/baselines/fixed_batch.h"
#include "core/sim/baselines/published_policy.h"

namespace adaptdl {
namespace {

struct Candidate {
  TrueJob truth;
  double steps_left = 0;
  int replicas = 0;  // given so far
  int most = 0;
};

// Optimizer steps to the end; 1 in the last epoch, because the profile has no rows within an epoch.
double steps_left(const TrueJob& job) {
  const int last = job.profile->epochs() - 1;
  if (job.epochs_finished >= last) return 1;
  const auto batch = static_cast<double>(job.batch_size);
  return job.profile->iterations(last, batch) - job.profile->iterations(job.epochs_finished, batch);
}

int most_replicas(const TrueJob& truth, const JobSnapshot& job) {
  const int64_t fed = truth.batch_size / truth.profile->times(truth.kind).atomic_min();
  const int64_t most = std::min<int64_t>(truth.profile->max_replicas(), job.max_replicas);
  return static_cast<int>(std::max<int64_t>(1, std::min(fed, most)));
}

}  // namespace

double Optimus::step_s(const TrueJob& job, int replicas, int gpus_per_node) {
  const auto [found, is_new] =
      known_.try_emplace({job.profile, job.batch_size, replicas, gpus_per_node});
  if (!is_new) return found->second;
  Placement gpus(static_cast<size_t>(replicas / gpus_per_node), gpus_per_node);
  if (replicas % gpus_per_node > 0) gpus.push_back(replicas % gpus_per_node);
  const BatchChoice batch =
      share_batch(job.profile->batch(job.kind), job.batch_size, replicas, true);
  const StepTime time = job.profile->times(job.kind).at(gpus, static_cast<double>(batch.atomic));
  return found->second = time.step_s + batch.accum_steps * (time.step_s - time.sync_s);
}

Decision Optimus::decide(const Snapshot& snapshot, uint64_t, const SearchBudget&) {
  check_published(snapshot, "optimus");
  const size_t jobs = snapshot.jobs.size();
  int64_t left = total_gpus(snapshot);
  int64_t gpus_per_node = 1;
  for (const auto& node : snapshot.nodes) gpus_per_node = std::max(gpus_per_node, node.capacity[0]);

  std::vector<Candidate> candidates(jobs);
  for (size_t j = 0; j < jobs; ++j) {
    if (pinned(snapshot.jobs[j])) left -= static_cast<int64_t>(snapshot.jobs[j].nodes.size());
  }
  for (size_t j = 0; j < jobs; ++j) {
    Candidate& c = candidates[j];
    c.truth = lookup_(snapshot.jobs[j].name);
    ADAPTDL_CHECK(c.truth.profile != nullptr && c.truth.batch_size >= 1);
    if (pinned(snapshot.jobs[j]) || left == 0) continue;
    c.steps_left = steps_left(c.truth);
    c.most = most_replicas(c.truth, snapshot.jobs[j]);
    c.replicas = 1;
    --left;
  }
  const auto gain_of = [&](const Candidate& c) {
    if (c.replicas == 0 || c.replicas >= c.most) return 0.0;
    const auto per_node = static_cast<int>(gpus_per_node);
    return (step_s(c.truth, c.replicas, per_node) - step_s(c.truth, c.replicas + 1, per_node)) *
           c.steps_left;
  };
  std::vector<double> gains(jobs);
  std::transform(candidates.begin(), candidates.end(), gains.begin(), gain_of);
  for (; left > 0 && jobs > 0; --left) {
    const auto best = std::max_element(gains.begin(), gains.end());  // the first of equal ones
    if (!(*best > 0)) break;
    Candidate& c = candidates[static_cast<size_t>(best - gains.begin())];
    ++c.replicas;
    *best = gain_of(c);
  }

  std::vector<int> wanted(jobs), order(jobs);
  for (size_t j = 0; j < jobs; ++j) {
    const bool enough = candidates[j].replicas >= snapshot.jobs[j].min_replicas;
    wanted[j] = enough ? candidates[j].replicas : 0;
  }
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return wanted[static_cast<size_t>(a)] < wanted[static_cast<size_t>(b)];
  });
  std::vector<NodeList> placed = place_on_emptiest(snapshot, wanted, order);
  Decision decision;
  for (size_t j = 0; j < jobs; ++j) {
    decision.jobs.push_back(
        {std::move(placed[j]),
         fmt::format("it has about {:.0f} steps left, and the next GPU would save {:.0f} s",
                     candidates[j].steps_left, gains[j])});
  }
  return decision;
}

}  // namespace adaptdl
