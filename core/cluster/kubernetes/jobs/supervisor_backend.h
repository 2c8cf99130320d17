#pragma once

// The jobs of a Kubernetes cluster for the supervisor. Thread-safe.

#include <functional>
#include <string>

#include "core/cluster/kubernetes/cluster_cache.h"
#include "core/sched/supervisor.h"

namespace adaptdl::kubernetes {

class KubernetesSupervisorBackend : public SupervisorBackend {
 public:
  using TakeHints = std::function<void(const std::string& id, Json train)>;
  using TakeLeader = std::function<void(const std::string& id, GroupLeader leader)>;

  // Borrows `cache` for its life. `key`: of job_keys().
  KubernetesSupervisorBackend(const ClusterCache& cache, std::string key, TakeHints take_hints,
                              TakeLeader take_leader);

 private:
  std::optional<SupervisedJob> find(const std::string& job_namespace,
                                    const std::string& name) override;
  std::optional<std::vector<std::string>> addresses(const std::string& job_namespace,
                                                    const std::string& name,
                                                    int64_t group) override;
  std::optional<std::vector<std::string>> live_addresses(const JobObject& job) const;
  void hints(const std::string& job_namespace, const std::string& name,
             const SchedulingHints& hints) override;
  void leads(const std::string& job_namespace, const std::string& name, int64_t group,
             int rank) override;

  const ClusterCache& cache_;
  const std::string key_;
  const TakeHints take_hints_;
  const TakeLeader take_leader_;
};

}  // namespace adaptdl::kubernetes
