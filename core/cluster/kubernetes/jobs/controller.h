#pragma once

// The controller and allocator loop of a Kubernetes cluster: one thread decides what to do, several
// threads do it (job_reconciler.h), each for one job, so that neither a job with thousands of pods
// nor a namespace with thousands of jobs holds up the others (job_queue.h). No error ends a thread:
// it is logged, and the job concerned reconciled again. What is noted is bounded by the number of
// jobs: of several changes or hints of a job, one is left. Each write is guarded by the version
// that it was decided on, so that the API server refuses a decision on outdated data, and the
// controller decides again. The process may be killed at any moment.

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/cluster/kubernetes/cluster_cache.h"
#include "core/cluster/kubernetes/jobs/job_queue.h"
#include "core/cluster/kubernetes/jobs/job_reconciler.h"
#include "core/cluster/kubernetes/jobs/pod_builder.h"
#include "core/sched/allocator.h"
#include "core/sched/cluster.h"

namespace adaptdl::kubernetes {

struct ControllerOptions {
  bool reconciles = true, allocates = true;  // false: another process does it
  PodSettings pods;
  AllocatorOptions allocator;
  std::string identity;  // of this operator, for events
  int writers = 16;      // threads that write at the same time, >= 1
};

// For metrics. Totals since the start, except for those of the last round.
struct ControllerFigures : ReconcilerCounts {
  uint64_t errors = 0, rounds = 0, changes = 0;
  double round_s = 0, policy_s = 0;  // last round: time until its last write, time of the policy
  kube::RequestCounts requests;      // of the client
};

class Controller : public Cluster {
 public:
  // Borrows all for its life. `acting`: for what only a leader may do, which it refuses once this
  // process no longer leads; `client`: for the rest.
  Controller(kube::Client& acting, kube::Client& client, ClusterCache& cache, Policy& policy,
             ControllerOptions options);

  // For the cache's listener; any thread.
  void job_changed(const std::string& id);
  void capacity_changed();
  // Notes hints that a job sent; any thread. run() writes them, or write_noted() in an
  // operator that does not lead: a job's program talks to any operator. No version guards hints,
  // since only the job sends them.
  void hints(const std::string& id, Json train);
  // The same with what its newest leader has told.
  void leads(const std::string& id, GroupLeader leader);
  void write_noted();

  // Works until `goes_on` returns false, or `acting` refuses a change; calls it at least once a
  // second. Throws std::system_error if it cannot start its threads.
  void run(const std::function<bool()>& goes_on);

  ControllerFigures figures() const;

 private:
  using Work = std::function<void()>;

  bool wait();
  void work_off();
  void reconcile_queued();
  void attempt(const Work& work);
  void write_all(const std::vector<Work>& work);
  void write_hints(const std::string& id, const Json& train);
  void write_leader(const std::string& id, const GroupLeader& leader);
  void again(const std::string& id, Seconds in);

  // The scheduler's view.
  double now_s() override;
  std::vector<ClusterNode> nodes() override;
  std::vector<ClusterJob> jobs() override;
  void allocate(const std::string& job, const std::vector<std::string>& nodes,
                const std::string& why) override;
  void explain(const std::string& job, const std::string& why) override;
  void round_if_due();
  void write_reason(const std::string& id);
  void write_allocation(const std::string& id, const std::vector<std::string>& nodes,
                        const std::string& why);

  kube::Client& client_;
  ClusterCache& cache_;
  const ControllerOptions options_;
  Allocator allocator_;
  JobReconciler reconciler_;
  JobQueue queue_;
  SchedulerView view_;  // of the present round
  std::vector<Work> allocations_;

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  bool refused_ = false;
  std::map<std::string, TimePoint> timers_;     // by job
  std::map<std::string, std::string> reasons_;  // by job: for its user, to be written
  std::map<std::string, Json> hints_;
  std::map<std::string, GroupLeader> leaders_;
  TimePoint leaders_at_ = TimePoint::min();  // when they were written
  bool capacity_changed_ = false;
  ControllerFigures figures_;
};

}  // namespace adaptdl::kubernetes
