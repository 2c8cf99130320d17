#pragma once

// The controller and allocator loop of a Kubernetes cluster: one thread decides, some threads
// write. Whatever it writes is guarded by the version that it decided on, so that a decision on old
// news is refused and taken again. It may be killed at any moment.

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "core/cluster/cluster.h"
#include "core/cluster/kubernetes/cluster_cache.h"
#include "core/cluster/kubernetes/pod_builder.h"
#include "core/cluster/kubernetes/reconcile.h"
#include "core/sched/allocator.h"

namespace adaptdl::kubernetes {

struct ControllerOptions {
  bool reconciles = true, allocates = true;  // else that is left to another process
  PodSettings pods;
  AllocatorOptions allocator;
  std::string identity;  // for events: of this operator
  int writers = 8;       // threads that write at once, >= 1
};

// For metrics. All are totals since the start, but for the last round.
struct ControllerFigures {
  uint64_t reconciled = 0, conflicts = 0, errors = 0, rounds = 0, changes = 0, pods_made = 0;
  double round_s = 0, policy_s = 0;  // of the last round: until its last write, and of its policy
  kube::RequestCounts requests;      // of the client
};

class Controller : public Cluster {
 public:
  // Borrows all for its life.
  Controller(kube::Client& client, ClusterCache& cache, Policy& policy, ControllerOptions options);

  // What the cache's listener tells; any thread.
  void job_changed(const std::string& id);
  void capacity_changed();
  // Hints that a job sent; any thread. run() writes them, or who does not lead: a job's program
  // talks to any operator, and hints are its own, so that they are guarded by no version.
  void hints(const std::string& id, Json train);
  void write_noted_hints();

  // Works until `goes_on` says no; it is asked at least once a second.
  void run(const std::function<bool()>& goes_on);

  ControllerFigures figures() const;

 private:
  using Work = std::function<void()>;

  // controller.cpp
  void wait();
  void work_off();
  void write_all(std::vector<Work> work);
  void again(const std::string& id, double when_s);

  // controller_jobs.cpp: on a writer's thread, one job by one at a time
  void reconcile_job(const std::string& id);
  bool has_unseen_pods(const JobObject& job);
  void ask_events(const JobObject& job, std::vector<PodFacts>& pods);
  bool write_status(const KnownJob& known, const JobStatus& status);
  void carry_out(const KnownJob& known, const std::vector<PodFacts>& pods,
                 const JobDecision& decision);
  void make_pods(const KnownJob& known, const JobStatus& status,
                 const std::vector<PodPlace>& places);
  void make_secret(const JobObject& job);
  void tell(const JobObject& job, const JobEvent& event);
  void note_refusals(const std::string& id, const std::vector<std::string>& nodes);
  void write_hints(const std::string& id, const Json& train);

  // The scheduler's view.
  NodeRefusals refusals();
  double now_s() override;
  std::vector<ClusterNode> nodes() override;
  std::vector<ClusterJob> jobs() override;
  void allocate(const std::string& job, const std::vector<std::string>& nodes,
                const std::string& why) override;
  void explain(const std::string& job, const std::string& why) override;
  void round_if_due();
  void write_allocation(const std::string& id, const std::optional<std::vector<std::string>>& nodes,
                        const std::string& why);

  kube::Client& client_;
  ClusterCache& cache_;
  const ControllerOptions options_;
  Allocator allocator_;
  KubernetesSnapshot snapshot_;  // of the round under way
  std::vector<Work> allocations_;

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  std::set<std::string> dirty_;
  std::map<std::string, double> timers_;  // by job, since 1970
  std::map<std::string, Json> hints_;
  std::map<std::string, std::set<std::string>> removed_;  // by job: pods whose removal was agreed
  // By job and node that did not take its pods: until when it is not asked again, since 1970.
  std::map<std::string, std::map<std::string, double>> refusals_;
  bool capacity_changed_ = false;
  ControllerFigures figures_;
};

}  // namespace adaptdl::kubernetes
