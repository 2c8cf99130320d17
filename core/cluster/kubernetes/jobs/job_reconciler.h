#pragma once

// Carries out what reconcile() (reconcile.h) decides about a job. Each write is guarded by the
// version that it was decided on. Different threads may handle different jobs at the same time, but
// only one thread a job.

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/rng.h"
#include "core/cluster/kubernetes/cluster_cache.h"
#include "core/cluster/kubernetes/jobs/pod_builder.h"
#include "core/cluster/kubernetes/jobs/reconcile.h"
#include "core/cluster/kubernetes/jobs/seen_moments.h"
#include "core/cluster/kubernetes/scheduler_view.h"

namespace adaptdl::kubernetes {

// Totals since the start.
struct ReconcilerCounts {
  uint64_t reconciled = 0, conflicts = 0, pods_made = 0;
};

class JobReconciler {
 public:
  // Schedules another reconciliation of the job.
  using Again = std::function<void(const std::string& id, Seconds in)>;

  // Borrows client, cache and pods for its life. `identity`: of this operator, for events.
  JobReconciler(kube::Client& client, ClusterCache& cache, const PodSettings& pods,
                std::string identity, Again again);

  // If an action failed, throws its exception after scheduling another attempt; Cancelled if the
  // client sends no more changes. The pauses between attempts that fail in a row, also by
  // conflicts, double (retry_pause()).
  void reconcile_job(const std::string& id);

  // False if the job was changed meanwhile, or is gone.
  bool write_status(const KnownJob& known, const JobStatus& status);
  void tell(const JobObject& job, const JobEvent& event);

  // Those that have not expired.
  NodeRefusals refusals();
  ReplicaBounds bounds();
  ReconcilerCounts counts() const;

 private:
  bool has_unseen_pods(const JobObject& job);
  void ask_events(const JobObject& job, const ClusterFacts& facts, std::vector<PodFacts>& pods);
  // False if the job was changed meanwhile, or is gone.
  bool carry_out(const KnownJob& known, const std::vector<PodFacts>& pods,
                 const JobDecision& decision);
  void try_again(const std::string& id, double first_s);
  ClusterFacts facts_of(const JobObject& job, const std::vector<std::string>& nodes,
                        bool expects_pods = false);
  JobObject with_whole_template(JobObject job);
  void make_pods(const KnownJob& known, const JobStatus& status,
                 const std::vector<PodPlace>& places);
  void create_if_missing(const kube::Resource& kind, const Json& object);
  // As that; where roles do not allow it, `otherwise` says what the job goes without.
  void create_if_allowed(const kube::Resource& kind, const Json& object,
                         const std::string& otherwise);
  void note_refusals(const std::string& id, const JobDecision& decision);

  kube::Client& client_;
  ClusterCache& cache_;
  const PodSettings& pods_;
  const std::string identity_;
  const Again again_;

  mutable std::mutex mutex_;                              // of what follows
  std::map<std::string, std::set<std::string>> removed_;  // by job: pods whose removal was accepted
  // By job and node that refused its pods: how many it took, and until when that counts.
  std::map<std::string, std::map<std::string, std::pair<int, TimePoint>>> refusals_;
  // By job: the replicas that a quota admitted, and until when that counts.
  std::map<std::string, std::pair<int, TimePoint>> bounds_;
  std::map<std::string, SeenMoments> seen_;  // by job
  std::map<std::string, int> failures_;      // by job, in a row
  Rng rng_;                                  // for jitter
  ReconcilerCounts counts_;
};

// The pause before the next attempt after `failures` (>= 1) failures in a row: `first_s`, doubling
// up to 60 s, each extended by up to half by `jitter` in [0, 1), so that jobs which failed at the
// same time, because the API server did not answer, do not all try again at the same time.
Seconds retry_pause(int failures, double first_s, double jitter);

}  // namespace adaptdl::kubernetes
