#pragma once

// The machine and its jobs as the scheduler sees them: a node for each kind of slots.

#include <string>
#include <string_view>
#include <vector>

#include "core/cluster/local/active_jobs.h"
#include "core/cluster/local/machine.h"
#include "core/cluster/local/slot_ledger.h"
#include "core/sched/cluster.h"

namespace adaptdl::local {

class LocalCluster : public Cluster {
 public:
  // Borrows all for its life.
  LocalCluster(ActiveJobs& jobs, const Machine& machine, const SlotLedger& slots)
      : jobs_(jobs), machine_(machine), slots_(slots), nodes_(nodes_of(machine)) {}

  // Adapts the jobs to the machine at the start of a service, when the live jobs hold their slots.
  // The machine may have changed since their submission: fewer GPUs after a reboot, other --slots.
  void fit_jobs();

  double now_s() override;
  std::vector<ClusterNode> nodes() override;
  std::vector<ClusterJob> jobs() override;
  void allocate(const std::string& name, const std::vector<std::string>& nodes,
                const std::string& why) override;
  void explain(const std::string& name, const std::string& why) override;

 private:
  int kind_named(std::string_view node) const;
  void fit_to_slots(JobState& job) const;
  std::vector<std::string> nodes_of_job(const ActiveJob& job) const;
  Resources shared_use(const ActiveJob* without, std::string_view except) const;
  void take_held(std::vector<ClusterNode>& nodes) const;
  bool may_use(const ActiveJob& job, int kind) const;

  ActiveJobs& jobs_;
  const Machine& machine_;
  const SlotLedger& slots_;
  const std::vector<ClusterNode> nodes_;  // by kind: all that there is for its slots
};

}  // namespace adaptdl::local
