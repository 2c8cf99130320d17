#pragma once

// Carries out what reconcile() (reconcile.h) decides about one job. What it writes is guarded by
// the version that it decided on. Different jobs by different threads at once; one job by one.

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/cluster/kubernetes/cluster_cache.h"
#include "core/cluster/kubernetes/jobs/pod_builder.h"
#include "core/cluster/kubernetes/jobs/reconcile.h"
#include "core/cluster/kubernetes/scheduler_view.h"

namespace adaptdl::kubernetes {

// Totals since the start.
struct ReconcilerCounts {
  uint64_t reconciled = 0, conflicts = 0, pods_made = 0;
};

class JobReconciler {
 public:
  // Asks for the job to be reconciled at a time since 1970.
  using Again = std::function<void(const std::string& id, double when_s)>;

  // Borrows client, cache and pods for its life. `identity`: for events, of this operator.
  JobReconciler(kube::Client& client, ClusterCache& cache, const PodSettings& pods,
                std::string identity, Again again);

  // Throws Error if something could not be done; it is asked for again then.
  void reconcile_job(const std::string& id);

  // False if somebody else has changed the job meanwhile, or it is gone.
  bool write_status(const KnownJob& known, const JobStatus& status);
  void tell(const JobObject& job, const JobEvent& event);
  void write_hints(const std::string& id, const Json& train);

  NodeRefusals refusals();  // those that still hold
  ReconcilerCounts counts() const;

 private:
  bool has_unseen_pods(const JobObject& job);
  void ask_events(const JobObject& job, std::vector<PodFacts>& pods);
  void carry_out(const KnownJob& known, const std::vector<PodFacts>& pods,
                 const JobDecision& decision);
  void make_pods(const KnownJob& known, const JobStatus& status,
                 const std::vector<PodPlace>& places);
  void make_secret(const JobObject& job);
  void note_refusals(const std::string& id, const std::vector<std::string>& nodes);

  kube::Client& client_;
  ClusterCache& cache_;
  const PodSettings& pods_;
  const std::string identity_;
  const Again again_;

  mutable std::mutex mutex_;                              // of what follows
  std::map<std::string, std::set<std::string>> removed_;  // by job: pods whose removal was agreed
  // By job and node that did not take its pods: until when it is not asked again, since 1970.
  std::map<std::string, std::map<std::string, double>> refusals_;
  ReconcilerCounts counts_;
};

}  // namespace adaptdl::kubernetes
