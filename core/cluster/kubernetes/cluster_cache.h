#pragma once

// What the operator knows of the cluster: jobs, pods and nodes, kept up to date by watches, and
// what it has itself written since, so that nobody decides twice on old news. Thread-safe.

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
  // Called on the watches' threads; they note down what they are told, and wait for nothing.
  struct Listener {
    std::function<void(const std::string& id)> job;  // it or its pods have changed
    std::function<void()> capacity;                  // a job or a node has come, gone or changed
  };

  // Begins to watch. Borrows `client` for its life.
  ClusterCache(kube::Client& client, Listener listener);

  bool synced() const;
  std::string problem() const;  // why a watch does not get on; "" while all do

  std::optional<KnownJob> job(const std::string& id) const;
  std::vector<KnownJob> jobs() const;
  std::vector<PodFacts> pods(const JobObject& job) const;  // that it owns
  std::vector<PodUse> uses() const;
  std::vector<NodeFacts> nodes() const;                                // by name
  std::shared_ptr<const std::vector<std::string>> node_names() const;  // sorted
  std::string hostname(const std::string& node) const;  // NodeFacts::hostname; its name if unknown

  // A write that was made on the version `base` of a job, and the API server's answer.
  void wrote(const std::string& id, const std::string& base, Json answer);

  // Pods that are being created: the job expects them until they are seen, for 30 s at most.
  void expect(const std::string& id, const std::set<std::string>& pods);
  void forget_expected(const std::string& id);
  bool expects(const std::string& id) const;

 private:
  struct Written {
    Json object;
    std::set<std::string> older;  // versions that it replaces
  };
  struct Expected {
    std::set<std::string> pods;
    TimePoint until;
  };
  struct KnownPod {
    std::string job;  // by its label; "" if it is nobody's
    PodFacts facts;
    PodUse use;
    bool takes_room = false;
  };

  void node_changed(const Json& object, bool gone);
  void job_changed(const Json& object);
  void pod_changed(const Json& object, bool gone);
  std::optional<KnownJob> known(const std::string& id, const Json& object) const;

  kube::Client& client_;
  const Listener listener_;
  mutable std::mutex mutex_;
  std::map<std::string, Written> written_;    // by job
  std::map<std::string, Expected> expected_;  // by job
  std::map<std::string, NodeFacts> nodes_;    // by name: read once, as there are many and many ask
  mutable std::shared_ptr<const std::vector<std::string>> node_names_;  // null: made when asked for
  std::map<kube::ObjectName, KnownPod> pods_;
  std::map<std::string, std::set<kube::ObjectName>> pods_of_;  // by job
  // Last: their threads use the above.
  kube::Informer nodes_informer_, pods_informer_, jobs_informer_;
};

// Leaves of an object what read_pod(), pod_request() and read_node() look at.
void trim_pod(Json& pod);
void trim_node(Json& node);

}  // namespace adaptdl::kubernetes
