#pragma once

// The machine and its jobs as the scheduler sees them: one node with its slots.

#include <string>
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
      : jobs_(jobs), machine_(machine), slots_(slots) {}

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
  ActiveJobs& jobs_;
  const Machine& machine_;
  const SlotLedger& slots_;
};

}  // namespace adaptdl::local
