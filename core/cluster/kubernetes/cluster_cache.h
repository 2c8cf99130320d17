#pragma once

// The operator's view of the cluster: jobs, pods and nodes, kept up to date by watches, and its own
// writes since, so that it never decides twice on outdated data. Thread-safe.

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/cluster/kubernetes/jobs/job_object.h"
#include "core/cluster/kubernetes/jobs/pod_object.h"
#include "core/cluster/kubernetes/nodes/capacity.h"
#include "core/cluster/kubernetes/scheduler_view.h"
#include "core/kube/informer.h"

namespace adaptdl::kubernetes {

inline const kube::Resource kJobs{
    std::string(kJobGroup), std::string(kJobVersion), std::string(kJobPlural), "", "", ""};

struct KnownJob {
  JobObject job;
  std::string problem;  // of its spec, see read_job()
};

class ClusterCache {
 public:
  // Called on the watches' threads; the functions only note the change, and never block.
  struct Listener {
    std::function<void(const std::string& id)> job;  // the job or its pods have changed
    std::function<void()> capacity;                  // a job or node was added, removed or changed
  };

  // Starts the watches. Borrows `client` for its life. `accelerator_label`: read_node()'s.
  // `namespaces`: those whose jobs it knows; empty: all.
  ClusterCache(kube::Client& client, Listener listener, std::string accelerator_label = "",
               const std::vector<std::string>& namespaces = {});

  bool synced() const;
  std::string problem() const;  // why a watch fails; "" while all work

  std::optional<KnownJob> job(const std::string& id) const;
  std::vector<KnownJob> jobs() const;
  std::vector<PodFacts> pods(const JobObject& job) const;  // pods that the job owns
  std::vector<PodUse> uses() const;
  std::vector<NodeFacts> nodes() const;                                // by name
  std::shared_ptr<const std::vector<std::string>> node_names() const;  // sorted
  NodeFacts node(const std::string& name) const;  // of an unknown one only the names
  std::optional<std::string> accelerator_of(const std::vector<std::string>& nodes) const;

  // Notes that a merge patch of a job's status has made the version `made` of the version `base`.
  void wrote(const std::string& id, const std::string& base, const std::string& made,
             const Json& patch);

  // Notes pods that are being created: expected until the watch reports them, for at most 30 s.
  void expect(const std::string& id, const std::set<std::string>& pods);
  void forget_expected(const std::string& id);
  bool expects(const std::string& id) const;

 private:
  struct Written {
    Json object;
    std::set<std::string> older;  // versions that this one replaces
  };
  struct Expected {
    std::set<std::string> pods;
    TimePoint until;
  };
  struct KnownPod {
    std::string job;  // by its label; "" if it has none
    PodFacts facts;
    PodUse use;
    bool takes_room = false;
  };

  void node_changed(const Json& object, bool gone);
  void job_changed(const Json& object);
  void pod_changed(const Json& object, bool gone);
  bool is_replica(const Json& pod, const std::string& name_space) const;
  std::unique_ptr<kube::Informer> watch_jobs(const std::string& name_space);
  kube::Object find_job(const std::string& id) const;  // null: there is none
  std::optional<KnownJob> known(const std::string& id, const Json& object) const;

  kube::Client& client_;
  const Listener listener_;
  const std::string accelerator_label_;
  const std::vector<std::string> namespaces_;  // whose jobs it knows; empty: all
  mutable std::mutex mutex_;
  std::map<std::string, Written> written_;    // by job
  std::map<std::string, Expected> expected_;  // by job
  std::map<std::string, NodeFacts> nodes_;    // by name: parsed once, since they are read often
  mutable std::shared_ptr<const std::vector<std::string>> node_names_;  // null: made on demand
  std::map<kube::ObjectName, KnownPod> pods_;
  std::map<std::string, std::set<kube::ObjectName>> pods_of_;  // by job
  // Declared last: their threads use the members above.
  kube::Informer nodes_informer_, pods_informer_;
  std::map<std::string, std::unique_ptr<kube::Informer>> jobs_informers_;  // by namespace; "": all
};

}  // namespace adaptdl::kubernetes
